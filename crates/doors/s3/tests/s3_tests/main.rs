//! The suite of Ceph for servers of S3, <https://github.com/ceph/s3-tests>, which `make soak` fetches. `passes.txt` names its tests that
//! pass, and `others.txt` those that do not, each with the reason. Its tests of other services (IAM, STS, SNS, S3 Select) are not run.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{ACCESS_KEY, SECRET_KEY, Served};
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

/// The names of a list, without the reasons.
fn listed(list: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/s3_tests").join(list);
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| line.split(" | ").next().unwrap_or(line).to_owned()).collect()
}

#[test]
fn what_passes_and_what_does_not_is_as_listed() {
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
    pytest.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=line", "-rA", "--timeout=120"]);
    pytest.args(["s3tests/functional/test_headers.py", "s3tests/functional/test_s3.py"]);
    pytest.current_dir(&suite).env("S3TEST_CONF", path).env_remove("AWS_CA_BUNDLE");
    // It fails, because some tests do.
    let output = pytest.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let ended = |outcomes: &[&str]| -> BTreeSet<String> {
        let lines = said.lines().filter_map(|line| line.split_once(' '));
        let names = lines.filter(|(outcome, _)| outcomes.contains(outcome)).map(|(_, rest)| rest);
        names.map(|rest| rest.split(" - ").next().unwrap_or(rest).to_owned()).collect()
    };
    let (passed, others) = (ended(&["PASSED"]), ended(&["FAILED", "ERROR"]));
    let changed = [
        ("passes, and is not listed", passed.difference(&listed("passes.txt")).cloned().collect::<Vec<_>>()),
        ("is listed, and does not pass", listed("passes.txt").difference(&passed).cloned().collect()),
        ("fails, and is not listed", others.difference(&listed("others.txt")).cloned().collect()),
        ("is listed, and does not fail", listed("others.txt").difference(&others).cloned().collect()),
    ];
    assert!(changed.iter().all(|(_, names)| names.is_empty()), "{changed:#?}\n{said}");
    println!("{}", said.lines().last().unwrap_or_default());
    served.server.end();
    let found = served.store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((found.bad, found.lost), (0, 0));
}
