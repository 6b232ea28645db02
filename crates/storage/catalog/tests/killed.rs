//! kill -9 in the middle of LMDB's commit: other processes that have the catalog open see the commit at once, or never.

#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(clippy::unwrap_used, unsafe_code)]

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use terrace_catalog::log::Log;
use terrace_catalog::{Attributes, Catalog, Change, Edit};

const WORKER_VARIABLE: &str = "TERRACE_CATALOG_WORKER";
const COMMIT_COUNT: usize = 12;
/// LMDB writes its meta pages, the first two, in part; all else it writes in whole pages.
const META_PAGES_BYTES: u64 = 2 * 4096;
const MAX_META_BYTES: u64 = 256;

fn open(dir: &Path) -> Catalog {
    Catalog::open(&dir.join("catalog"), Log::open(&dir.join("log"), 7).unwrap()).unwrap()
}

fn put(catalog: &Catalog, key: &str) {
    let object = catalog.next_id().unwrap();
    let (key, attributes) = (key.as_bytes().to_vec(), Attributes::default());
    let edits = vec![Edit::Put { key, object, length: 0, want: 1, attributes, staged: false, extents: Vec::new() }];
    catalog.commit(Change { expect: Vec::new(), edits }).unwrap();
}

fn holds(catalog: &Catalog, key: &str) -> bool {
    catalog.object(key.as_bytes()).unwrap().is_some()
}

/// Not a test: the program of the killed processes.
#[test]
fn worker() {
    let Ok(text) = std::env::var(WORKER_VARIABLE) else { return };
    let (dir, name) = text.split_once(' ').unwrap();
    let catalog = open(Path::new(dir));
    (0..COMMIT_COUNT).for_each(|at| put(&catalog, &format!("{name}/{at}")));
}

/// Starts a process in a group of its own, whose system calls `trace` sees.
fn spawn_traced(dir: &Path, name: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "worker"]).stdout(Stdio::null()).process_group(0);
    command.env(WORKER_VARIABLE, format!("{} {name}", dir.display()));
    // SAFETY: the child makes one system call, which takes no memory.
    let traced = || match unsafe { libc::ptrace(libc::PTRACE_TRACEME) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    };
    // SAFETY: see above.
    unsafe { command.pre_exec(traced) };
    command.spawn().unwrap()
}

/// Runs the threads of a traced process from one system call to the next, and calls `left` at each return from one with its number and
/// arguments. If that breaks, the process is killed there. Returns whether it was.
fn trace(mut child: Child, mut left: impl FnMut(u64, [u64; 6]) -> ControlFlow<()>) -> bool {
    let pid = child.id() as libc::pid_t;
    let mut entered: HashMap<libc::pid_t, (u64, [u64; 6])> = HashMap::new();
    let (mut is_first, mut is_killed) = (true, false);
    loop {
        let mut status = 0;
        // SAFETY: `status` is there.
        let thread = unsafe { libc::waitpid(-pid, &mut status, libc::__WALL) };
        assert!(thread > 0, "waiting: {}", std::io::Error::last_os_error());
        if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
            // The first thread is told of last.
            if thread == pid {
                return is_killed;
            }
            continue;
        }
        if std::mem::take(&mut is_first) {
            let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACECLONE;
            // SAFETY: the process is stopped, here and below. Its threads are traced, too.
            unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, pid, 0, options) };
        }
        // SAFETY: all zeros is a value of the structure, which has only numbers.
        let mut info: libc::ptrace_syscall_info = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes as many bytes as it is told that there are.
        unsafe { libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, thread, size_of_val(&info), &raw mut info) };
        match info.op {
            libc::PTRACE_SYSCALL_INFO_ENTRY => {
                // SAFETY: the kernel says which of the union's fields it has filled.
                let entry = unsafe { info.u.entry };
                entered.insert(thread, (entry.nr, entry.args));
            }
            libc::PTRACE_SYSCALL_INFO_EXIT => {
                if let Some((number, arguments)) = entered.remove(&thread)
                    && left(number, arguments).is_break()
                {
                    child.kill().unwrap();
                    is_killed = true;
                }
            }
            _ => {}
        }
        // SAFETY: see above.
        unsafe { libc::ptrace(libc::PTRACE_SYSCALL, thread, 0, 0) };
    }
}

/// LMDB tells readers of a commit by a word in shared memory, after it has written the commit's meta page. Processes that had the
/// catalog open missed the commit of a process that was killed between the two, until the next commit: a stream's process that took
/// the lock of a killed one wrote its page at the place of the other's last one, and requests were lost (`tests/kill.rs`).
#[test]
fn a_commit_is_seen_at_once_or_never_if_its_process_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = open(dir.path());
    let mut seen = 0;
    for round in 1.. {
        let name = format!("w{round}");
        let child = spawn_traced(dir.path(), &name);
        let mut metas = 0;
        let is_killed = trace(child, |number, arguments| {
            let is_write = number == libc::SYS_pwrite64 as u64;
            let is_meta = is_write && arguments[2] < MAX_META_BYTES && arguments[3] < META_PAGES_BYTES;
            metas += usize::from(is_meta);
            if metas == round { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if !is_killed {
            break;
        }
        let held = || (0..COMMIT_COUNT).filter(|at| holds(&catalog, &format!("{name}/{at}"))).count();
        let before = held();
        put(&catalog, "next");
        assert_eq!(before, held(), "round {round}: a commit was seen late");
        seen += before;
    }
    assert!(seen >= COMMIT_COUNT, "no process was killed in a commit");
}
