//! Three members of etcd on loopback, with folders of their own, ended by their own process ids.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use terrace_testkit::{Missing, wait_until};

pub const MEMBER_COUNT: usize = 3;

/// How often a cluster is started on other ports where somebody has taken one of the first.
const MAX_STARTS: usize = 5;

struct Member {
    /// For clients.
    port: u16,
    peer_port: u16,
    child: Option<Child>,
}

pub struct Cluster {
    program: PathBuf,
    /// More arguments of each member.
    arguments: &'static [&'static str],
    folder: tempfile::TempDir,
    members: Vec<Member>,
}

impl Cluster {
    /// Starts three members with these arguments.
    pub fn start(arguments: &'static [&'static str]) -> Result<Cluster, Missing> {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/servers/etcd/etcd");
        if !program.is_file() {
            return Err(Missing::new("etcd", "there is no etcd in target/servers; `make etcd` builds it"));
        }
        for _ in 0..MAX_STARTS {
            let members = free_ports().map(|(port, peer_port)| Member { port, peer_port, child: None }).collect();
            let mut cluster =
                Cluster { program: program.clone(), arguments, folder: tempfile::tempdir().unwrap(), members };
            (0..MEMBER_COUNT).for_each(|at| cluster.spawn(at));
            if cluster.serves() {
                return Ok(cluster);
            }
        }
        panic!("etcd ends at once");
    }

    /// Waits until the members have a leader. False if one has ended.
    fn serves(&mut self) -> bool {
        let mut has_ended = false;
        wait_until("etcd serves", || {
            has_ended =
                self.members.iter_mut().any(|m| m.child.as_mut().is_some_and(|c| c.try_wait().unwrap().is_some()));
            has_ended || self.leader().is_some()
        });
        !has_ended
    }

    fn spawn(&mut self, at: usize) {
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let peers: Vec<_> =
            self.members.iter().enumerate().map(|(at, m)| format!("m{at}={}", url(m.peer_port))).collect();
        let (client, peer) = (url(self.members[at].port), url(self.members[at].peer_port));
        let log =
            File::options().create(true).append(true).open(self.folder.path().join(format!("m{at}.log"))).unwrap();
        let mut command = Command::new(&self.program);
        command.args(["--name", &format!("m{at}"), "--data-dir"]).arg(self.data(at));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &peers.join(","), "--log-level", "error"]);
        // The kernel keeps what a killed member wrote. No test cuts the power.
        command.arg("--unsafe-no-fsync").args(self.arguments);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.members[at].child = Some(command.spawn().unwrap());
    }

    fn data(&self, at: usize) -> PathBuf {
        self.folder.path().join(format!("m{at}"))
    }

    /// The ports for clients.
    pub fn ports(&self) -> Vec<u16> {
        self.members.iter().map(|member| member.port).collect()
    }

    /// The member that leads, as it says itself.
    pub fn leader(&self) -> Option<usize> {
        (0..MEMBER_COUNT).find(|at| {
            let is_running = self.members[*at].child.is_some();
            is_running
                && metrics(self.members[*at].port).is_some_and(|text| text.contains("\netcd_server_is_leader 1\n"))
        })
    }

    pub fn kill(&mut self, at: usize) {
        if let Some(mut child) = self.members[at].child.take() {
            child.kill().and_then(|()| child.wait()).unwrap();
        }
    }

    /// Stops a member, or lets it go on.
    pub fn signal(&self, at: usize, signal: Signal) {
        let child = self.members[at].child.as_ref().unwrap();
        kill_process(Pid::from_child(child), signal).unwrap();
    }

    /// Starts the members that were killed, with their data.
    pub fn start_again(&mut self) {
        let killed: Vec<_> = (0..MEMBER_COUNT).filter(|at| self.members[*at].child.is_none()).collect();
        killed.into_iter().for_each(|at| self.spawn(at));
    }

    pub fn kill_all(&mut self) {
        (0..MEMBER_COUNT).for_each(|at| self.kill(at));
    }

    /// Copies the data of all members, which are killed for that.
    pub fn copy_data(&mut self) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        self.kill_all();
        (0..MEMBER_COUNT).for_each(|at| copy_folder(&self.data(at), &copy.path().join(format!("m{at}"))));
        self.start_again();
        copy
    }

    /// Puts the copied data back; without a copy, the members begin empty.
    pub fn replace_data(&mut self, copy: Option<&Path>) {
        self.kill_all();
        for at in 0..MEMBER_COUNT {
            fs::remove_dir_all(self.data(at)).unwrap();
            if let Some(copy) = copy {
                copy_folder(&copy.join(format!("m{at}")), &self.data(at));
            }
        }
        self.start_again();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.kill_all();
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Two free ports for each member. All are taken before the first is given back, so they differ.
fn free_ports() -> impl Iterator<Item = (u16, u16)> {
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let all: Vec<_> = (0..MEMBER_COUNT).map(|_| (listen(), listen())).collect();
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    let ports: Vec<_> = all.iter().map(|(client, peer)| (port(client), port(peer))).collect();
    ports.into_iter()
}

/// A member's own figures, if it answers.
fn metrics(port: u16) -> Option<String> {
    let wait = std::time::Duration::from_secs(1);
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    // A stopped member takes connections, and does not answer.
    stream.set_read_timeout(Some(wait)).ok()?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}
