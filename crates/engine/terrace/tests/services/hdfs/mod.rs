//! HDFS, a NameNode and a DataNode of Hadoop in one process of Java, which OpenDAL reaches by WebHDFS.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use terrace_testkit::{Missing, Running, downloads, find_server, wait_until};

use crate::servers::{Server, options};

/// Who starts HDFS: others may not write below its root.
const SUPERUSER_NAME: &str = "terrace";
/// How long a call may take. Java loads much of Hadoop only when the first call needs it.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

pub struct Hdfs {
    running: Running,
    _folder: tempfile::TempDir,
}

impl Hdfs {
    pub fn start() -> Result<Hdfs, Missing> {
        // The compiler is a sign of a whole JDK, which runs a program from its source.
        let java = find_server("hdfs", "javac")?.with_file_name("java");
        let jars = downloads().join("hdfs");
        if !jars.join("installed").is_file() {
            return Err(Missing::new("hdfs", "there are no jars of Hadoop; `make servers` downloads them"));
        }
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().to_owned();
        // The servers look there for web pages, which the jars lack.
        for pages in ["hdfs", "datanode"] {
            fs::create_dir_all(root.join("webapps").join(pages)).expect("a folder");
        }
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/services/hdfs/Hdfs.java");
        let classes = format!("{}/*:{}", jars.display(), root.display());
        let log = root.join("log");
        let command = move |port: u16| {
            let mut command = Command::new(&java);
            // It lives for seconds, so code that starts fast is better than code that runs fast.
            command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m"]);
            // For the JAXB of Hadoop's HTTP servers.
            command.args(["--add-opens", "java.base/java.lang=ALL-UNNAMED", "-cp", &classes]);
            command.arg(&source).arg(&root).args([&port.to_string(), SUPERUSER_NAME]).current_dir(&root);
            command
        };
        let running = Running::start(&log, command);
        wait_until("HDFS takes writes", || {
            let said = running.said();
            assert!(!said.contains("Exception"), "{said}");
            said.contains("HDFS takes writes")
        });
        Ok(Hdfs { running, _folder: folder })
    }
}

impl Server for Hdfs {
    fn name(&self) -> &'static str {
        "webhdfs"
    }
    fn options(&self) -> BTreeMap<String, String> {
        options([
            ("endpoint", format!("http://127.0.0.1:{}", self.running.proxy.port)),
            ("user_name", SUPERUSER_NAME.into()),
            ("atomic_write_dir", ".parts/".into()),
        ])
    }
    fn timeout(&self) -> Duration {
        CALL_TIMEOUT
    }
    fn kill(&mut self) {
        self.running.kill();
    }
    /// It is in safe mode at first, and refuses writes.
    fn start_again(&mut self) {
        self.running.start_again();
    }
}
