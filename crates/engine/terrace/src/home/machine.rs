//! One machine uses a store's directory at a time.
//!
//! The file `machine` names the kernel that has the store open. All processes that have it open hold a shared lock on that
//! file; a process that holds the lock exclusively may write another name into it. The store's own lock cannot serve for
//! this, because it is released for moments while it changes between shared and exclusive.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::FlockOperation;
use terrace_system::{Locked, boot, fork};

use super::filesystem::Suitability;
use super::refuse;
use crate::{Error, Result};

const MACHINE_FILE: &str = "machine";
/// Longer than any complete file.
const MAX_FILE_BYTES: usize = 1024;

/// The identity of a kernel. All containers of a machine share its kernel, so they may share a store, whatever their machine
/// ids and host names are.
#[derive(Clone, Debug, Default, PartialEq)]
struct Kernel {
    /// A random id of each boot. Empty if it cannot be read.
    boot: String,
    /// The host name, and the checksum of the machine id. They stay the same after a reboot, but cloned machines may share
    /// them.
    host: String,
    machine: String,
}

impl Kernel {
    fn own() -> Kernel {
        let id = fs::read("/etc/machine-id").unwrap_or_default();
        Kernel {
            boot: boot::read_id().unwrap_or_default(),
            host: host_name(),
            // A checksum, because other users should not see the id itself.
            machine: format!("{:016x}", xxhash_rust::xxh3::xxh3_64(&id)),
        }
    }

    fn parse(text: &str) -> Option<Kernel> {
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Some(Kernel { boot: field("boot")?.into(), host: field("host")?.into(), machine: field("machine")?.into() })
    }

    fn to_text(&self) -> String {
        format!("boot {}\nhost {}\nmachine {}\n", self.boot, self.host, self.machine)
    }

    /// Returns whether both are the same boot of the same machine.
    fn is_same_boot(&self, other: &Kernel) -> bool {
        // Two unreadable ids prove nothing.
        self.boot == other.boot && (!self.boot.is_empty() || self.is_same_machine(other))
    }

    fn is_same_machine(&self, other: &Kernel) -> bool {
        self.host == other.host && self.machine == other.machine
    }
}

/// Returns the name of this machine, without blanks.
pub fn host_name() -> String {
    one_word(&rustix::system::uname().nodename().to_string_lossy())
}

fn one_word(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join("-")
}

/// Held while a store is open. No other machine opens it meanwhile.
#[derive(Debug)]
pub struct MachineLock {
    file: Locked,
    /// Whether the last process clears the name in the file. Locks may not reach other machines, so the file says when the
    /// store is closed.
    is_name_cleared: bool,
    forks: u32,
}

impl MachineLock {
    /// Takes the store in `dir`, whose file system is `suitability`, for this machine.
    pub fn take(dir: &Path, suitability: &Suitability) -> Result<MachineLock> {
        let path = dir.join(MACHINE_FILE);
        let open = || File::options().create(true).truncate(false).read(true).write(true).mode(0o600).open(&path);
        let context = || format!("locking {}", path.display());
        let own = Kernel::own();
        let is_lock_doubtful = matches!(suitability, Suitability::Unknown(_));
        let alone = open().and_then(Locked::at_once).map_err(Error::io(context()))?;
        let file = match alone {
            Some(file) => {
                let named = read_kernel(&file).map_err(Error::io(context()))?;
                match &named {
                    Some(other) if is_lock_doubtful && !own.is_same_boot(other) && !own.is_same_machine(other) => {
                        return Err(refuse(dir, &describe_left_open(other, &path)));
                    }
                    _ => {}
                }
                if named.as_ref() != Some(&own) {
                    write_kernel(&file, &own.to_text()).map_err(Error::io(context()))?;
                }
                file.change(FlockOperation::LockShared).map_err(Error::io(context()))?;
                file
            }
            // Waits for processes that hold the lock exclusively, which they do for moments.
            None => open().and_then(Locked::share).map_err(Error::io(context()))?,
        };
        // Read again under the lock that stays: another machine may have taken the file between the exclusive and the shared
        // lock.
        match read_kernel(&file).map_err(Error::io(context()))? {
            Some(other) if !own.is_same_boot(&other) => Err(refuse(
                dir,
                &format!(
                    "the machine {:?} has the store open, and only one machine at a time can use it; close it there first",
                    other.host
                ),
            )),
            _ => Ok(MachineLock { file, is_name_cleared: is_lock_doubtful, forks: fork::count() }),
        }
    }
}

impl Drop for MachineLock {
    fn drop(&mut self) {
        let is_own = self.forks == fork::count();
        if self.is_name_cleared && is_own && self.file.change(FlockOperation::NonBlockingLockExclusive).is_ok() {
            // If this fails, the name stays, and another machine asks its user to remove the file.
            let _ = self.file.set_len(0);
        }
    }
}

fn describe_left_open(other: &Kernel, path: &Path) -> String {
    format!(
        "the machine {:?} has the store open, or was switched off while it had; end it there, or remove {} if you are sure that \
         nothing on that machine uses the store",
        other.host,
        path.display()
    )
}

/// Reads the name in the file. None if it is empty or was not completely written.
fn read_kernel(file: &File) -> io::Result<Option<Kernel>> {
    let mut bytes = [0; MAX_FILE_BYTES];
    let length = file.read_at(&mut bytes, 0)?;
    let text = String::from_utf8_lossy(&bytes[..length]);
    Ok(Some(&*text).filter(|text| text.ends_with('\n')).and_then(Kernel::parse))
}

/// Writes the name in place, because the lock belongs to this file. It is not synced: after a loss of power no process has
/// the store open.
fn write_kernel(file: &File, text: &str) -> io::Result<()> {
    file.set_len(0)?;
    file.write_all_at(text.as_bytes(), 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn local() -> Suitability {
        Suitability::Local("ext4".into())
    }

    fn unknown() -> Suitability {
        Suitability::Unknown("newfs".into())
    }

    fn other() -> Kernel {
        Kernel { boot: "another-boot".into(), host: "other".into(), machine: "00".into() }
    }

    fn refusal(dir: &Path, kind: &Suitability) -> String {
        MachineLock::take(dir, kind).map(drop).unwrap_err().to_string()
    }

    #[test]
    fn a_store_that_another_machine_has_open_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        // The lock of the other machine, on a file system that shares locks between machines.
        let path = dir.path().join(MACHINE_FILE);
        fs::write(&path, other().to_text()).unwrap();
        let held = File::open(&path).unwrap();
        held.lock_shared().unwrap();
        for kind in [local(), unknown()] {
            let error = refusal(dir.path(), &kind);
            assert!(error.contains("\"other\" has the store open"), "{error}");
        }
        drop(held);
        // It is gone: this machine takes over, and shares with its own processes.
        let first = MachineLock::take(dir.path(), &local()).unwrap();
        assert_eq!(read_kernel(&File::open(&path).unwrap()).unwrap().unwrap(), Kernel::own());
        drop(MachineLock::take(dir.path(), &local()).unwrap());
        drop(first);
    }

    /// If locks do not reach other machines, only the name says that one of them has the store open.
    #[test]
    fn a_name_that_another_machine_left_is_believed_where_locks_may_not_reach_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(MACHINE_FILE);
        fs::write(&path, other().to_text()).unwrap();
        let error = refusal(dir.path(), &unknown());
        assert!(error.contains("\"other\"") && error.contains(MACHINE_FILE), "{error}");
        // The name of the same machine before a reboot, and the name that a killed process left.
        for own in [Kernel { boot: "boot-before".into(), ..Kernel::own() }, Kernel::own()] {
            fs::write(&path, own.to_text()).unwrap();
            let held = MachineLock::take(dir.path(), &unknown()).unwrap();
            assert_eq!(read_kernel(&File::open(&path).unwrap()).unwrap().unwrap(), Kernel::own());
            let second = MachineLock::take(dir.path(), &unknown()).unwrap();
            drop(held);
            assert!(read_kernel(&File::open(&path).unwrap()).unwrap().is_some(), "one has it still");
            drop(second);
            assert_eq!(fs::read(&path).unwrap(), b"", "the last one clears the name");
        }
        fs::write(&path, "boot cut-in-the-mid").unwrap();
        drop(MachineLock::take(dir.path(), &unknown()).unwrap());
    }

    #[test]
    fn containers_share_a_kernel_and_clones_do_not() {
        let own = Kernel::own();
        assert!(!own.boot.is_empty());
        assert!(own.is_same_boot(&Kernel { host: "container".into(), machine: "7".into(), ..own.clone() }));
        assert!(!own.is_same_boot(&Kernel { boot: "clone".into(), ..own.clone() }));
        let nameless = Kernel { boot: String::new(), ..own.clone() };
        assert!(nameless.is_same_boot(&nameless) && !nameless.is_same_boot(&own));
        assert!(!nameless.is_same_boot(&Kernel { host: "elsewhere".into(), ..nameless.clone() }));
    }
}
