//! A log in an etcd that nobody reaches without a certificate and a password.

#![allow(clippy::panic, clippy::unwrap_used)]

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use terrace_testkit::{Missing, free_ports, skip, wait_until};

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).unwrap();
    }
}

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut parameters = CertificateParams::new(Vec::new()).unwrap();
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, "an authority");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap()
}

/// Writes a certificate and its key into a folder.
fn certify(authority: &Authority, folder: &Path, name: &str) {
    let mut parameters = CertificateParams::new(vec!["localhost".into(), "127.0.0.1".into()]).unwrap();
    // Its name differs from that of its authority. Otherwise it looks like one that is signed by itself.
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let certificate = parameters.signed_by(&key, authority).unwrap();
    fs::write(folder.join(format!("{name}.pem")), certificate.pem()).unwrap();
    fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
}

fn told(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_log_behind_certificates_and_a_password_is_used_with_them_only() {
    let etcd = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/servers/etcd/etcd");
    if !etcd.is_file() {
        let missing = Missing::new("etcd", "there is no etcd in target/servers; `make etcd` builds it");
        return skip("a log behind certificates", &missing);
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (own, other) = (authority(), authority());
    fs::write(at("ca.pem"), own.pem()).unwrap();
    fs::write(at("other-ca.pem"), other.pem()).unwrap();
    certify(&own, folder.path(), "server");
    certify(&own, folder.path(), "node");
    for (name, text) in [("password", "open sesame\n"), ("secret", "the-secret-of-this-test")] {
        fs::write(at(name), text).unwrap();
        fs::set_permissions(at(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    let ports = free_ports(3);
    let (port, peer, served) = (ports[0], ports[1], ports[2]);
    let (url, peers) = (format!("https://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer}"));
    let log = File::create(at("etcd.log")).unwrap();
    let mut server = Command::new(etcd);
    server.args(["--name", "m", "--data-dir"]).arg(at("etcd")).arg("--unsafe-no-fsync");
    server.args(["--listen-client-urls", &url, "--advertise-client-urls", &url, "--listen-peer-urls", &peers]);
    server.args(["--initial-advertise-peer-urls", &peers, "--initial-cluster", &format!("m={peers}")]);
    server.arg("--client-cert-auth").arg("--trusted-ca-file").arg(at("ca.pem"));
    server.arg("--cert-file").arg(at("server.pem")).arg("--key-file").arg(at("server.key"));
    let _server = Process(server.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap());
    let ask = |call: &str, question: &str| {
        let mut command = Command::new("curl");
        command
            .args(["--silent", "--show-error", "--fail", "--cacert"])
            .arg(at("ca.pem"))
            .arg("--cert")
            .arg(at("node.pem"));
        command
            .arg("--key")
            .arg(at("node.key"))
            .args(["--data", question, &format!("{url}/v3/{call}")])
            .output()
            .unwrap()
    };
    wait_until("etcd serves", || ask("maintenance/status", "{}").status.success());
    for (call, question) in [
        ("auth/role/add", r#"{"name": "root"}"#),
        ("auth/user/add", r#"{"name": "root", "password": "open sesame"}"#),
        ("auth/user/grant", r#"{"user": "root", "role": "root"}"#),
        ("auth/enable", "{}"),
    ] {
        told(&ask(call, question));
    }
    let config = format!(
        "[[tier]]\nname = 'disk'\nkind = 'node'\noptions = {{ secret = '{}' }}\n\
         targets = [{{ path = \"http://127.0.0.1:{served}/disk\", node = \"a\" }}]\n",
        at("secret").display()
    );
    fs::write(at("shared.toml"), config).unwrap();
    let targets = format!(
        "listen = '127.0.0.1:{served}'\nsecret = '{}'\n[[target]]\nname = 'disk'\npath = '{}'\n",
        at("secret").display(),
        at("disk").display()
    );
    fs::write(at("targets.toml"), targets).unwrap();
    let terrace = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
        command.args(arguments).env("TERRACE_STORE", at("a")).stdin(Stdio::null());
        command
    };
    let address = format!("etcds://127.0.0.1:{port}");
    let init = |authorities: &str, with_certificate: bool, with_password: bool| {
        let mut init = terrace(&["init", "--cluster", &address, "--name", "a", "--json", "--config"]);
        init.arg(at("shared.toml")).arg("--etcd-ca").arg(at(authorities));
        if with_certificate {
            init.arg("--etcd-certificate").arg(at("node.pem")).arg("--etcd-key").arg(at("node.key"));
        }
        if with_password {
            init.args(["--etcd-user", "root", "--etcd-password"]).arg(at("password"));
        }
        init.output().unwrap()
    };
    for (authorities, with_certificate, with_password) in
        [("other-ca.pem", true, true), ("ca.pem", false, true), ("ca.pem", true, false)]
    {
        let refused = init(authorities, with_certificate, with_password);
        assert!(!refused.status.success() && !at("a").exists(), "{authorities} {with_certificate} {with_password}");
    }
    let made = told(&init("ca.pem", true, true));
    assert!(made.contains("etcds://"), "{made}");
    // The files are named in the store's directory, so the node needs no words.
    let log = File::create(at("node.log")).unwrap();
    let mut node = terrace(&["node", "--no-listen", "--targets"]);
    node.arg(at("targets.toml")).stdout(log.try_clone().unwrap()).stderr(log);
    let _node = Process(node.spawn().unwrap());
    wait_until("the node serves", || {
        let status = terrace(&["status", "--json"]).output().unwrap();
        String::from_utf8_lossy(&status.stdout).contains("\"state\":\"ok\"")
    });
    told(&terrace(&["put"]).arg(at("shared.toml")).arg("k").output().unwrap());
    assert_eq!(terrace(&["cat", "k"]).output().unwrap().stdout, fs::read(at("shared.toml")).unwrap());
}
