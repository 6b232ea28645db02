//! Real servers on loopback, each in a folder of its own, ended by its own process id.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use terrace::tier::Service;
use terrace_testkit::{Missing, Moto, Redis, Running, find_server};

/// How long a call of most services may take. OpenDAL's client for Redis needs all of it to see that the server was killed.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// A service, as the tests see it.
pub trait Server {
    /// OpenDAL's name for it.
    fn name(&self) -> &'static str;
    /// OpenDAL's options for it.
    fn options(&self) -> BTreeMap<String, String>;
    /// How long a call may take.
    fn timeout(&self) -> Duration {
        CALL_TIMEOUT
    }
    /// The root of the target with this name.
    fn root(&self, target: &str) -> String {
        format!("/{target}")
    }
    /// Ends it in the middle of whatever it does.
    fn kill(&mut self);
    /// Starts it again, with the blobs that it had.
    fn start_again(&mut self);

    fn service(&self, target: &str) -> Service {
        Service { name: self.name().into(), options: self.options(), root: self.root(target), timeout: self.timeout() }
    }

    /// The lines of a tier with this target.
    fn tier(&self, target: &str) -> String {
        let options: Vec<String> = self.options().iter().map(|(name, value)| format!("{name} = '{value}'")).collect();
        format!(
            "[[tier]]\nname = 'bucket'\nkind = 'object'\ntimeout = '{}s'\nservice = '{}'\ntargets = ['{}']\noptions = {{ {} }}\n",
            self.timeout().as_secs(),
            self.name(),
            self.root(target),
            options.join(", ")
        )
    }
}

pub fn options<const N: usize>(pairs: [(&str, String); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

impl Server for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }
    fn options(&self) -> BTreeMap<String, String> {
        options([("endpoint", self.endpoint())])
    }
    fn kill(&mut self) {
        Redis::kill(self);
    }
    fn start_again(&mut self) {
        Redis::start_again(self);
    }
}

impl Server for Moto {
    fn name(&self) -> &'static str {
        "s3"
    }
    fn options(&self) -> BTreeMap<String, String> {
        let own = self.options().into_iter().chain([("bucket", Moto::BUCKET_NAME.to_owned())]);
        own.map(|(name, value)| (name.to_owned(), value)).collect()
    }
    fn kill(&mut self) {
        self.cut_off();
    }
    fn start_again(&mut self) {
        self.connect();
    }
}

/// A WebDAV server over a folder.
pub struct WebDav {
    running: Running,
    _folder: tempfile::TempDir,
}

impl WebDav {
    pub fn start() -> Result<WebDav, Missing> {
        let program = find_server("webdav", "wsgidav")?;
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("root");
        fs::create_dir(&root).expect("a folder");
        let command = move |port: u16| {
            let mut command = Command::new(&program);
            command.args(["--host", "127.0.0.1", "--port", &port.to_string(), "--no-config", "--auth", "anonymous"]);
            command.args(["--server", "cheroot", "-q", "--root"]).arg(&root);
            command
        };
        Ok(WebDav { running: Running::start(&folder.path().join("log"), command), _folder: folder })
    }
}

impl Server for WebDav {
    fn name(&self) -> &'static str {
        "webdav"
    }
    fn options(&self) -> BTreeMap<String, String> {
        options([("endpoint", format!("http://127.0.0.1:{}", self.running.proxy.port))])
    }
    fn kill(&mut self) {
        self.running.kill();
    }
    fn start_again(&mut self) {
        self.running.start_again();
    }
}

/// OpenSSH's server, for the user that runs the test.
pub struct Sftp {
    running: Running,
    folder: tempfile::TempDir,
    user: String,
}

impl Sftp {
    /// The server's program, if it is there.
    pub fn program() -> Result<PathBuf, Missing> {
        find_server("sftp", "ssh").and_then(|_| find_server("sftp", "sshd"))
    }

    pub fn start() -> Result<Sftp, Missing> {
        let program = Sftp::program()?;
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str| folder.path().join(name);
        for key in ["host", "user"] {
            let mut keygen = Command::new("ssh-keygen");
            let made = keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(file(key)).status();
            assert!(made.expect("ssh-keygen").success());
        }
        let settings = format!(
            "ListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nUsePAM no\nStrictModes no\n\
             PasswordAuthentication no\nMaxStartups 1000\nSubsystem sftp internal-sftp\n",
            file("host").display(),
            file("user.pub").display()
        );
        fs::write(file("settings"), settings).expect("writes");
        // Where root starts sshd, it wants this folder, which the system's own service makes. Others need none.
        let _ = fs::create_dir("/run/sshd");
        let settings = file("settings");
        let command = move |port: u16| {
            let mut command = Command::new(&program);
            command.args(["-D", "-e", "-p", &port.to_string(), "-f"]).arg(&settings);
            command
        };
        let user = Command::new("id").arg("-un").output().expect("id").stdout;
        let user = String::from_utf8(user).expect("UTF-8").trim().to_owned();
        Ok(Sftp { running: Running::start(&file("log"), command), folder, user })
    }
}

impl Server for Sftp {
    fn name(&self) -> &'static str {
        "sftp"
    }
    fn options(&self) -> BTreeMap<String, String> {
        options([
            ("endpoint", format!("ssh://{}@127.0.0.1:{}", self.user, self.running.proxy.port)),
            ("key", self.folder.path().join("user").display().to_string()),
            ("known_hosts_strategy", "accept".into()),
        ])
    }
    fn root(&self, target: &str) -> String {
        self.folder.path().join(target).display().to_string()
    }
    fn kill(&mut self) {
        self.running.kill();
    }
    fn start_again(&mut self) {
        self.running.start_again();
    }
}
