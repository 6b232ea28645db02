//! A small file system in memory, for tests that fill a disk.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Missing, skip, wait_until};

/// The file of another program, which takes the space.
const FILLER_NAME: &str = "others";

/// A small file system, which is unmounted when this is dropped.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one with these options of tmpfs, such as `size=2m`. None, with a counted skip, where this user may not mount.
    pub fn mount(test: &str, at: &Path, options: &str) -> Option<SmallDisk> {
        let mount = || {
            fs::create_dir_all(at)?;
            Command::new("mount").args(["-t", "tmpfs", "-o", options, "terrace-test"]).arg(at).output()
        };
        match mount() {
            Ok(output) if output.status.success() => Some(SmallDisk(at.to_owned())),
            Ok(output) => {
                skip(test, &Missing::new("loop", String::from_utf8_lossy(&output.stderr)));
                None
            }
            Err(error) => {
                skip(test, &Missing::new("loop", error));
                None
            }
        }
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Mounts it with other options. Waits until no file is open for writing, as one is while a store writes behind its caller's back.
    pub fn remount(&self, options: &str) {
        let remount = || {
            Command::new("mount")
                .args(["-o", &format!("remount,{options}")])
                .arg(&self.0)
                .stderr(Stdio::null())
                .status()
        };
        wait_until("it is mounted again", || remount().is_ok_and(|status| status.success()));
    }

    /// Takes all its space but these bytes.
    ///
    /// # Panics
    /// If the file that takes the space cannot be written.
    pub fn fill_but(&self, free_bytes: u64) {
        let path = self.0.join(FILLER_NAME);
        let taken = || File::options().create(true).append(true).open(&path);
        let piece = vec![1; 64 << 10];
        // The write that finds the disk full is a short one, or none.
        while taken().and_then(|mut file| std::io::Write::write_all(&mut file, &piece)).is_ok() {}
        let file = taken().expect("the file is there");
        let bytes = file.metadata().expect("its length").len();
        file.set_len(bytes.saturating_sub(free_bytes)).expect("it can be cut");
    }

    /// Gives the space back.
    ///
    /// # Panics
    /// If nothing had taken it.
    pub fn make_room(&self) {
        fs::remove_file(self.0.join(FILLER_NAME)).expect("the disk was filled");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A disk that stays mounted is the next test's trouble, not this one's.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
