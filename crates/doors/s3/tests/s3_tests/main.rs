//! The suite of Ceph for servers of S3, <https://github.com/ceph/s3-tests>, which `make soak` fetches. `passes.txt` names its tests that
//! pass. The others ask for what the server does not have, or for what only Ceph's own server does.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use common::{ACCESS_KEY, SECRET_KEY, Served, succeed};
use terrace_testkit::{Missing, skip};

/// The variable that names the suite's folder, with an environment of Python in `venv`.
const SUITE_VARIABLE: &str = "TERRACE_S3_TESTS";

/// A user of the suite. All of them have the same key, because the server knows no other rights than all.
fn user(section: &str) -> String {
    format!(
        "[{section}]\ndisplay_name = terrace\nuser_id = terrace\nemail = terrace@localhost\napi_name = us-east-1\n\
         access_key = {ACCESS_KEY}\nsecret_key = {SECRET_KEY}\ntenant = terrace\n"
    )
}

#[test]
fn what_passes_goes_on_to_pass() {
    let Some(suite) = std::env::var_os(SUITE_VARIABLE).map(PathBuf::from) else {
        skip(
            "s3-tests",
            &Missing::new("s3-tests", format!("{SUITE_VARIABLE} names no folder; `make soak` fetches the suite")),
        );
        return;
    };
    let served = Served::new();
    let address = served.server.address();
    let mut config = format!(
        "[DEFAULT]\nhost = {}\nport = {}\nis_secure = False\nssl_verify = False\n[fixtures]\nbucket prefix = t-{{random}}-\n\
         iam name prefix = s3-tests-\niam path prefix = /s3-tests/\n[webidentity]\ntoken = x\naud = x\nsub = x\nazp = x\nuser_token = x\n\
         thumbprint = x\nKC_REALM = x\n",
        address.ip(),
        address.port()
    );
    config.extend(["s3 main", "s3 alt", "s3 tenant", "iam", "iam root", "iam alt root"].map(user));
    let path = served.dir.path().join("s3tests.conf");
    fs::write(&path, config).unwrap();
    let mut pytest = Command::new(suite.join("venv/bin/python"));
    pytest.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short"]);
    pytest.arg(format!("@{}/tests/s3_tests/passes.txt", env!("CARGO_MANIFEST_DIR")));
    pytest.current_dir(&suite).env("S3TEST_CONF", path).env_remove("AWS_CA_BUNDLE");
    let said = succeed(&mut pytest);
    println!("{}", said.lines().last().unwrap_or_default());
    served.server.end();
    let found = served.store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((found.bad, found.lost), (0, 0));
}
