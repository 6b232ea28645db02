//! Real servers on loopback, each in a folder of its own, ended by its own process id.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use terrace::tier::Service;
use terrace_testkit::{Missing, Redis, S3_BUCKET};

use crate::proxy::Proxy;

/// How long a server may take to start on a busy machine.
const MAX_START_WAIT: Duration = Duration::from_secs(60);
/// How often a server is started on another port where somebody has taken the first.
const MAX_STARTS: usize = 5;
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

/// A server behind a proxy.
pub struct Running {
    command: Box<dyn Fn(u16) -> Command>,
    child: Child,
    log: PathBuf,
    /// The server's own port.
    port: u16,
    pub proxy: Proxy,
}

impl Running {
    pub fn start(log: &Path, command: impl Fn(u16) -> Command + 'static) -> Running {
        let proxy = Proxy::start();
        let (child, port) = spawn(&command, log);
        proxy.lead_to(port);
        Running { command: Box::new(command), child, log: log.to_owned(), port, proxy }
    }

    pub fn kill(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).expect("ends");
        // sshd leaves a process for each connection, which ends with it.
        self.proxy.cut_off();
    }

    pub fn start_again(&mut self) {
        let (child, port) = spawn(&*self.command, &self.log);
        (self.child, self.port) = (child, port);
        self.proxy.lead_to(port);
    }

    /// The server's output so far.
    pub fn said(&self) -> String {
        said(&self.log)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have been killed already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.proxy.cut_off();
    }
}

/// Starts a server on a free port and waits until it takes connections.
fn spawn(command: &dyn Fn(u16) -> Command, log: &Path) -> (Child, u16) {
    for _ in 0..MAX_STARTS {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let out = File::options().create(true).append(true).open(log).unwrap();
        let mut command = command(port);
        command.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out);
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let started = Instant::now();
        // One that has ended found its port taken, or cannot work at all: then its log is shown below.
        while child.try_wait().unwrap().is_none() {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
                return (child, port);
            }
            assert!(started.elapsed() < MAX_START_WAIT, "{command:?} does not start: {}", said(log));
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    panic!("the server ends at once: {}", said(log));
}

fn said(log: &Path) -> String {
    fs::read_to_string(log).unwrap_or_default()
}

/// The folder of what `make servers` downloads.
pub fn downloads() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/servers")
}

/// A program that `make servers` installs.
pub fn find(need: &'static str, program: &str) -> Result<PathBuf, Missing> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([downloads().join("bin"), "/usr/sbin".into()]);
    let found = folders.map(|folder| folder.join(program)).find(|file| file.is_file());
    found.ok_or_else(|| Missing::new(need, format!("there is no {program}; `make servers` installs it")))
}

/// Moto's S3 behind a proxy. It keeps its blobs in memory, so being killed means being cut off here.
pub struct S3 {
    server: terrace_testkit::S3,
    proxy: Proxy,
}

impl S3 {
    pub fn start() -> Result<S3, Missing> {
        let (server, proxy) = (terrace_testkit::S3::start()?, Proxy::start());
        proxy.lead_to(server.port());
        Ok(S3 { server, proxy })
    }

    /// Makes the bucket, which neither Terrace nor OpenDAL does.
    pub fn make_bucket(&self) {
        self.server.make_bucket();
    }

    /// Ends the server with all that it held, and starts an empty one.
    pub fn lose_everything(&mut self) {
        self.proxy.cut_off();
        self.server.lose_everything();
        self.proxy.lead_to(self.server.port());
    }
}

impl Server for S3 {
    fn name(&self) -> &'static str {
        "s3"
    }
    fn options(&self) -> BTreeMap<String, String> {
        let bucket = [("bucket", S3_BUCKET.to_owned()), ("endpoint", format!("http://127.0.0.1:{}", self.proxy.port))];
        let others = self.server.options().into_iter().filter(|(name, _)| *name != "endpoint");
        others.chain(bucket).map(|(name, value)| (name.to_owned(), value)).collect()
    }
    fn kill(&mut self) {
        self.proxy.cut_off();
    }
    fn start_again(&mut self) {
        self.proxy.lead_to(self.server.port());
    }
}

/// A WebDAV server over a folder.
pub struct WebDav {
    running: Running,
    _folder: tempfile::TempDir,
}

impl WebDav {
    pub fn start() -> Result<WebDav, Missing> {
        let program = find("webdav", "wsgidav")?;
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
        find("sftp", "ssh").and_then(|_| find("sftp", "sshd"))
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
