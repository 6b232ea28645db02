//! Three members of etcd on loopback, with folders of their own, ended by their own process ids.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::{Missing, free_ports, wait_until};

/// How often a cluster is started on other ports where somebody has taken one of the first.
const MAX_STARTS: usize = 5;
/// A stopped member takes connections, and does not answer.
const METRICS_TIMEOUT: Duration = Duration::from_secs(1);

struct Member {
    /// For clients.
    port: u16,
    peer_port: u16,
    child: Option<Child>,
}

/// A running cluster of etcd, which ends with this.
pub struct EtcdCluster {
    program: PathBuf,
    /// More arguments of each member.
    arguments: Vec<&'static str>,
    folder: tempfile::TempDir,
    members: Vec<Member>,
}

impl EtcdCluster {
    /// The number of members.
    pub const MEMBER_COUNT: usize = 3;

    /// Starts members with these arguments for a test. They do not sync what they write: the kernel keeps it when they are killed, and
    /// no test cuts their power.
    ///
    /// # Errors
    /// If etcd was not built.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(arguments: &'static [&'static str]) -> Result<EtcdCluster, Missing> {
        EtcdCluster::start_below(&std::env::temp_dir(), &[&["--unsafe-no-fsync"], arguments].concat())
    }

    /// Starts members as a site runs them, which sync all that they write. Their data is below this folder.
    ///
    /// # Errors
    /// If etcd was not built.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_synced(parent: &Path) -> Result<EtcdCluster, Missing> {
        EtcdCluster::start_below(parent, &[])
    }

    fn start_below(parent: &Path, arguments: &[&'static str]) -> Result<EtcdCluster, Missing> {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/servers/etcd/etcd");
        if !program.is_file() {
            return Err(Missing::new("etcd", "there is no etcd in target/servers; `make etcd` builds it"));
        }
        let started = (0..MAX_STARTS).find_map(|_| {
            let folder = tempfile::tempdir_in(parent).expect("a folder");
            let ports = free_ports(2 * Self::MEMBER_COUNT);
            let member = |ports: &[u16]| Member { port: ports[0], peer_port: ports[1], child: None };
            let members = ports.chunks(2).map(member).collect();
            let mut cluster = EtcdCluster { program: program.clone(), arguments: arguments.to_vec(), folder, members };
            (0..Self::MEMBER_COUNT).for_each(|at| cluster.spawn(at));
            cluster.serves().then_some(cluster)
        });
        Ok(started.expect("etcd does not end at once"))
    }

    /// Waits until the members have a leader. False if one has ended.
    fn serves(&mut self) -> bool {
        let mut has_ended = false;
        wait_until("etcd serves", || {
            let ended = |child: &mut Child| child.try_wait().expect("a process").is_some();
            has_ended = self.members.iter_mut().any(|member| member.child.as_mut().is_some_and(ended));
            has_ended || self.leader().is_some()
        });
        !has_ended
    }

    fn spawn(&mut self, at: usize) {
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let peers: Vec<_> =
            self.members.iter().enumerate().map(|(at, m)| format!("m{at}={}", url(m.peer_port))).collect();
        let (client, peer) = (url(self.members[at].port), url(self.members[at].peer_port));
        let log = self.folder.path().join(format!("m{at}.log"));
        let log = File::options().create(true).append(true).open(log).expect("a file for its messages");
        let mut command = Command::new(&self.program);
        command.args(["--name", &format!("m{at}"), "--data-dir"]).arg(self.data(at));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &peers.join(","), "--log-level", "error"]).args(&self.arguments);
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a handle")).stderr(log);
        self.members[at].child = Some(command.spawn().expect("etcd starts"));
    }

    fn data(&self, at: usize) -> PathBuf {
        self.folder.path().join(format!("m{at}"))
    }

    /// Returns the ports for clients.
    pub fn ports(&self) -> Vec<u16> {
        self.members.iter().map(|member| member.port).collect()
    }

    /// Returns the member that leads, as it says itself.
    pub fn leader(&self) -> Option<usize> {
        let leads = |at: &usize| self.metric(*at, "etcd_server_is_leader") == Some(1.0);
        (0..Self::MEMBER_COUNT).find(leads)
    }

    /// Returns one of a member's own figures, summed over its labels. None if the member does not answer, or has no such figure.
    pub fn metric(&self, at: usize, name: &str) -> Option<f64> {
        self.members[at].child.as_ref()?;
        let text = metrics(self.members[at].port)?;
        let figures = text.lines().filter_map(|line| {
            let rest = line.strip_prefix(name).filter(|rest| rest.starts_with([' ', '{']))?;
            rest.rsplit(' ').next()?.parse::<f64>().ok()
        });
        figures.reduce(|one, other| one + other)
    }

    /// Kills a member, if it runs.
    ///
    /// # Panics
    /// If it cannot be ended.
    pub fn kill(&mut self, at: usize) {
        if let Some(mut child) = self.members[at].child.take() {
            child.kill().and_then(|()| child.wait()).expect("it ends");
        }
    }

    /// Stops a running member, or lets it go on.
    ///
    /// # Panics
    /// If it does not run.
    pub fn signal(&self, at: usize, signal: Signal) {
        let child = self.members[at].child.as_ref().expect("it runs");
        kill_process(Pid::from_child(child), signal).expect("it gets the signal");
    }

    /// Starts the members that were killed, with their data.
    ///
    /// # Panics
    /// If one cannot be started.
    pub fn start_again(&mut self) {
        let killed: Vec<_> = (0..Self::MEMBER_COUNT).filter(|at| self.members[*at].child.is_none()).collect();
        killed.into_iter().for_each(|at| self.spawn(at));
    }

    /// Kills all members.
    pub fn kill_all(&mut self) {
        (0..Self::MEMBER_COUNT).for_each(|at| self.kill(at));
    }

    /// Copies the data of all members, which are killed for that.
    ///
    /// # Panics
    /// If that fails.
    pub fn copy_data(&mut self) -> tempfile::TempDir {
        let copy = tempfile::tempdir().expect("a folder");
        self.kill_all();
        (0..Self::MEMBER_COUNT).for_each(|at| copy_folder(&self.data(at), &copy.path().join(format!("m{at}"))));
        self.start_again();
        copy
    }

    /// Puts the copied data back. Without a copy, the members begin empty.
    ///
    /// # Panics
    /// If that fails.
    pub fn replace_data(&mut self, copy: Option<&Path>) {
        self.kill_all();
        for at in 0..Self::MEMBER_COUNT {
            fs::remove_dir_all(self.data(at)).expect("its data is removed");
            if let Some(copy) = copy {
                copy_folder(&copy.join(format!("m{at}")), &self.data(at));
            }
        }
        self.start_again();
    }
}

impl Drop for EtcdCluster {
    fn drop(&mut self) {
        self.kill_all();
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a new folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("its content");
        let to = to.join(entry.file_name());
        if entry.file_type().expect("its type").is_dir() {
            copy_folder(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("a copy");
        }
    }
}

/// Returns a member's own figures, if it answers. To an older version of HTTP it sends them in one piece.
fn metrics(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    stream.set_read_timeout(Some(METRICS_TIMEOUT)).ok()?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}
