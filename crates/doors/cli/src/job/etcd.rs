//! The member of etcd that a host of a job runs.

use std::env;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, getpid, getppid, kill_process, set_parent_process_death_signal};

use super::authority::HostFiles;
use super::meeting::Plan;
use crate::output::{complain, note, path_name};

/// A member that gets a signal ends within this time, or is killed.
const MAX_END_TIME: Duration = Duration::from_secs(10);
const MIN_START_INTERVAL: Duration = Duration::from_secs(5);
const END_POLL_INTERVAL: Duration = Duration::from_millis(20);
const KEEP_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// etcd's own limit is 2 GiB. The nodes trim the log long before.
const QUOTA_BYTES: u64 = 8 << 30;

/// Finds the program.
pub fn find(asked: Option<&Path>) -> Result<PathBuf> {
    const ETCD_ADVICE: &str =
        "get etcd 3.6 or newer from https://etcd.io, and name it by --etcd PROGRAM or put it into PATH";
    if let Some(program) = asked {
        return match program.is_file() {
            true => std::path::absolute(program).context("the working directory"),
            false => bail!("there is no program {}; {ETCD_ADVICE}", path_name(program)),
        };
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&folders).map(|folder| folder.join("etcd")).find(|program| program.is_file());
    found.with_context(|| format!("there is no etcd in PATH, which is to keep the log of the store; {ETCD_ADVICE}"))
}

/// Returns the addresses on which a host listens.
pub fn listening_address(host: &str) -> Result<IpAddr> {
    if let Ok(address) = host.parse() {
        return Ok(address);
    }
    let mut found = (host, 0).to_socket_addrs().with_context(|| format!("looking for the address of host {host}"))?;
    // On all addresses of the host: its own name may be that of its loopback there.
    match found.next().with_context(|| format!("the host {host} has no address"))?.ip() {
        IpAddr::V4(_) => Ok(Ipv4Addr::UNSPECIFIED.into()),
        IpAddr::V6(_) => Ok(Ipv6Addr::UNSPECIFIED.into()),
    }
}

/// A running member. It ends with this, and with this process.
pub struct EtcdMember {
    member: Arc<Mutex<Member>>,
    /// Set before the member is ended.
    ends: Arc<AtomicBool>,
    /// The thread that starts the member again.
    keeper: Option<JoinHandle<()>>,
}

struct Member {
    command: Command,
    child: Child,
    started: Instant,
}

impl EtcdMember {
    /// Starts this host's member, with its data in `local`.
    pub fn start(program: &Path, plan: &Plan, host: &str, files: &HostFiles, local: &Path) -> Result<EtcdMember> {
        let mut command = Command::new(program);
        let (arrival, address) = (plan.arrival(host)?, listening_address(host)?);
        let listen = |port: u16| match address {
            IpAddr::V4(address) => format!("https://{address}:{port}"),
            IpAddr::V6(address) => format!("https://[{address}]:{port}"),
        };
        let (client, peer) = (arrival.client_port, arrival.peer_port);
        let peers =
            plan.log_hosts().iter().map(|host| Ok(format!("{host}=https://{host}:{}", plan.arrival(host)?.peer_port)));
        let peers = peers.collect::<Result<Vec<_>>>()?.join(",");
        command.args(["--name", host, "--data-dir"]).arg(local.join("etcd"));
        command.args(["--listen-client-urls", &listen(client), "--listen-peer-urls", &listen(peer)]);
        command.args(["--advertise-client-urls", &format!("https://{host}:{client}")]);
        command.args(["--initial-advertise-peer-urls", &format!("https://{host}:{peer}"), "--initial-cluster", &peers]);
        command.args(["--initial-cluster-token", &format!("{:016x}", plan.id)]);
        command.args(["--quota-backend-bytes", &QUOTA_BYTES.to_string(), "--log-level", "warn"]);
        command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(&files.authority);
        command.arg("--cert-file").arg(&files.certificate).arg("--key-file").arg(&files.key);
        // The authority is this job's. A host's connections may come from any of its addresses.
        command.args(["--peer-client-cert-auth", "--peer-skip-client-san-verification"]);
        command.arg("--peer-trusted-ca-file").arg(&files.authority);
        command.arg("--peer-cert-file").arg(&files.certificate).arg("--peer-key-file").arg(&files.key);
        let path = local.join("etcd.log");
        let log = File::options().create(true).append(true).open(&path);
        let log = log.with_context(|| format!("writing {}", path_name(&path)))?;
        command.stdin(Stdio::null()).stdout(log.try_clone().context("the messages of etcd")?).stderr(log);
        end_with_this_process(&mut command);
        let child = command.spawn().with_context(|| format!("starting {}", path_name(program)))?;
        let member = Arc::new(Mutex::new(Member { command, child, started: Instant::now() }));
        Ok(EtcdMember { member, ends: Arc::default(), keeper: None })
    }

    /// Starts the member again whenever it ends, from now on. Slurm signals all processes of a job, etcd too, and the log must answer until
    /// the job has saved its store. In a thread, since the others may wait for the log.
    pub fn keep(&mut self) -> Result<()> {
        let (member, ends) = (self.member.clone(), self.ends.clone());
        let keep = move || {
            // Relaxed: the member's lock orders the flag before its end.
            while !ends.load(Ordering::Relaxed) {
                let mut member = lock(&member);
                // Looked at again under the lock, which is held while the member is ended.
                if !ends.load(Ordering::Relaxed)
                    && let Err(error) = member.start_if_ended()
                {
                    complain(&format!("{error:#}"));
                }
                drop(member);
                thread::sleep(KEEP_POLL_INTERVAL);
            }
        };
        let keeper = thread::Builder::new().name("terrace-etcd".into()).spawn(keep);
        self.keeper = Some(keeper.context("starting a thread that keeps etcd running")?);
        Ok(())
    }

    /// Returns an error if the member has ended.
    pub fn check(&mut self) -> Result<()> {
        match lock(&self.member).child.try_wait().context("waiting for etcd")? {
            Some(status) => bail!("etcd has ended ({status}); its file etcd.log beside its data says why"),
            None => Ok(()),
        }
    }
}

impl Member {
    /// Starts the member again if it has ended. One that ends at once is started again later.
    fn start_if_ended(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait().context("waiting for etcd")?
            && self.started.elapsed() > MIN_START_INTERVAL
        {
            self.started = Instant::now();
            note(&format!("etcd has ended ({status}), and is started again; its file etcd.log says why"));
            self.child = self.command.spawn().context("starting etcd again")?;
        }
        Ok(())
    }
}

/// Locks the member. A thread that panicked with the lock has left it as it was.
fn lock(member: &Mutex<Member>) -> MutexGuard<'_, Member> {
    member.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for EtcdMember {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // Held until the member has ended: then the keeper sees the flag, and its end kills no member that is saving its data.
        let mut member = lock(&self.member);
        // An error means that it has ended.
        let _ = kill_process(Pid::from_child(&member.child), Signal::TERM);
        let until = Instant::now() + MAX_END_TIME;
        while matches!(member.child.try_wait(), Ok(None)) {
            if Instant::now() > until {
                // As above.
                let _ = member.child.kill();
            }
            thread::sleep(END_POLL_INTERVAL);
        }
        drop(member);
        if let Some(keeper) = self.keeper.take() {
            // Only a panic is an error, which was printed.
            let _ = keeper.join();
        }
    }
}

/// Lets the kernel end the program when the thread that starts it ends: the main thread of this process, or the keeper of the member.
#[allow(unsafe_code)]
fn end_with_this_process(command: &mut Command) {
    let parent = getpid();
    let run = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have ended before.
        if getppid() == Some(parent) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
    };
    // SAFETY: between fork and exec, only system calls are made, and no memory is allocated.
    unsafe {
        command.pre_exec(run);
    }
}
