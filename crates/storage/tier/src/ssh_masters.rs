//! Ends `ssh` processes that the client for SFTP leaves behind.
//!
//! The client starts an `ssh` process for each connection. The process goes to the background, and is told to end over a socket
//! in a folder of its own. A connection that is dropped while `ssh` starts, or while it is told to end, loses the folder first.
//! Nothing reaches the process after that, so it would stay until its server ends.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getuid, kill_process};

/// How the names of the folders begin that the client makes.
const FOLDER_PREFIX: &[u8] = b".ssh-connection";
/// The longest time to wait for processes to end by themselves.
const MAX_END_WAIT: Duration = Duration::from_secs(2);
const SCAN_INTERVAL: Duration = Duration::from_millis(10);
/// The position of a process's start time among the fields of its `stat` behind the name.
const START_TIME_FIELD: usize = 19;

/// The last arguments of all `ssh` processes that the client starts for one place.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MasterArguments(Vec<Vec<u8>>);

impl MasterArguments {
    /// Returns the arguments for a service, if it is SFTP. The client passes them in this order.
    pub(super) fn of(service: &str, options: &BTreeMap<String, String>) -> Option<MasterArguments> {
        let endpoint = options.get("endpoint").filter(|_| service == "sftp")?;
        let (mut user, mut port, mut host) = (options.get("user").map(String::as_str), None, endpoint.as_str());
        if let Some(rest) = endpoint.strip_prefix("ssh://") {
            host = rest;
            if let Some((name, rest)) = host.rsplit_once('@') {
                (user, host) = (Some(name), rest);
            }
            if let Some((rest, number)) = host.rsplit_once(':').filter(|(_, number)| number.parse::<u16>().is_ok()) {
                (port, host) = (Some(number), rest);
            }
        }
        let mut arguments = Vec::new();
        arguments.extend(port.into_iter().flat_map(|port| ["-p", port]));
        arguments.extend(user.filter(|user| !user.is_empty()).into_iter().flat_map(|user| ["-l", user]));
        if let Some(key) = options.get("key").filter(|key| !key.is_empty()) {
            arguments.extend(["-o", "IdentitiesOnly=yes", "-i", key]);
        }
        arguments.push(host);
        Some(MasterArguments(arguments.into_iter().map(|argument| argument.as_bytes().to_vec()).collect()))
    }
}

/// Ends the processes with these arguments whose folder is gone, and waits until there are none.
pub(super) fn end_unreachable(places: &[MasterArguments]) {
    if places.is_empty() {
        return;
    }
    let began = Instant::now();
    let mut scans_without_any = 0;
    // A process that goes to the background has a new number. One scan may come too early for the new one and too late for the
    // old one, so two scans in a row must find none.
    while scans_without_any < 2 {
        let found = match find_unreachable(places) {
            Ok(found) => found,
            Err(error) => return tracing::warn!(%error, "`ssh` processes may be left: /proc cannot be read"),
        };
        scans_without_any = if found.is_empty() { scans_without_any + 1 } else { 0 };
        let is_late = began.elapsed() > MAX_END_WAIT;
        for process in &found {
            let signal = if is_late { Signal::KILL } else { Signal::TERM };
            // The number belongs to this process: it was read a moment ago, and numbers are used again only after all others.
            if let Err(error) = kill_process(*process, signal) {
                tracing::debug!(?process, %error, "an `ssh` process ended by itself, or cannot be ended");
            }
        }
        if began.elapsed() > 2 * MAX_END_WAIT {
            return tracing::warn!(?found, "`ssh` processes that nobody uses do not end");
        }
        thread::sleep(SCAN_INTERVAL);
    }
}

fn find_unreachable(places: &[MasterArguments]) -> io::Result<Vec<Pid>> {
    let own_start = read_start_time(Path::new("/proc/self"));
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let name = entry.file_name();
        let Some(process) = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw) else { continue };
        // A process that ends meanwhile has no files here.
        let folder = entry.path();
        if is_master(&folder, places)
            // What was there before this process is not of this process.
            && read_start_time(&folder) >= own_start
        {
            found.push(process);
        }
    }
    Ok(found)
}

/// Whether this is a process of this user with these arguments, whose control socket has lost its folder.
fn is_master(process: &Path, places: &[MasterArguments]) -> bool {
    if fs::metadata(process).map_or(true, |metadata| metadata.uid() != getuid().as_raw()) {
        return false;
    }
    let Ok(line) = fs::read(process.join("cmdline")) else { return false };
    let Some(line) = line.strip_suffix(b"\0") else { return false };
    let arguments: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
    let Some(socket) = arguments.windows(3).find(|some| some[0] == b"-S" && some[2] == b"-M") else { return false };
    let Some(folder) = Path::new(OsStr::from_bytes(socket[1])).parent() else { return false };
    let is_of_client = folder.file_name().is_some_and(|name| name.as_bytes().starts_with(FOLDER_PREFIX));
    is_of_client
        && places.iter().any(|place| arguments.ends_with(&place.0.iter().map(Vec::as_slice).collect::<Vec<_>>()))
        && is_gone(process, folder)
}

/// Whether the process itself sees no such folder: it may be in a container.
fn is_gone(process: &Path, folder: &Path) -> bool {
    let Ok(below_root) = folder.strip_prefix("/") else { return false };
    let seen: PathBuf = process.join("root").join(below_root);
    matches!(fs::symlink_metadata(seen), Err(error) if error.kind() == io::ErrorKind::NotFound) && process.exists()
}

/// Returns when a process began, in ticks since the machine did.
fn read_start_time(process: &Path) -> Option<u64> {
    let text = fs::read(process.join("stat")).ok()?;
    let text = String::from_utf8_lossy(&text);
    // The name of the program may have spaces and brackets.
    let (_, fields) = text.rsplit_once(')')?;
    fields.split_whitespace().nth(START_TIME_FIELD)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_those_of_the_client() {
        let of = |options: &[(&str, &str)]| {
            let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let arguments = MasterArguments::of("sftp", &options)?;
            Some(String::from_utf8(arguments.0.join(&b' ')).expect("text"))
        };
        assert_eq!(
            of(&[("endpoint", "ssh://u@h:22"), ("user", "v"), ("key", "/k")]).as_deref(),
            Some("-p 22 -l u -o IdentitiesOnly=yes -i /k h")
        );
        assert_eq!(of(&[("endpoint", "u@h"), ("user", "v")]).as_deref(), Some("-l v u@h"));
        assert_eq!(of(&[]), None);
    }
}
