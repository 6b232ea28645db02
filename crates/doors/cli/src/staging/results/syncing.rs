//! Syncs many files at once.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{fstatfs, syncfs};

use crate::at_once::{STAGING_THREADS, map_at_once};

/// File systems that write all to the device in one call: ext4, XFS, Btrfs, F2FS, tmpfs. FUSE ignores the call, and network file systems may have
/// many other files to send.
const WHOLE_SYNC_NUMBERS: [u32; 5] = [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0x0102_1994];
/// Fewer files are synced one by one, without waiting for what other programs have written there.
const MIN_WHOLE_SYNC_FILES: usize = 8;

/// How the files below a folder are synced.
pub struct Syncing {
    top: File,
    device: u64,
    /// Whether one call syncs the file system.
    is_whole: bool,
}

impl Syncing {
    pub fn of(top: File) -> io::Result<Syncing> {
        let device = top.metadata()?.dev();
        // The number has 32 bits, in a field that is wider on some machines.
        let number = fstatfs(&top)?.f_type as u32;
        Ok(Syncing { top, device, is_whole: WHOLE_SYNC_NUMBERS.contains(&number) })
    }

    /// Syncs files at once. Returns false if they must be synced one by one: also after an error, because it may be that of another program's
    /// file, and the file's own error is kept for its own sync.
    pub fn sync_all<'f>(&self, files: impl Iterator<Item = &'f File>) -> bool {
        self.sync_devices(files.map(|file| Ok(file.metadata()?.dev())))
    }

    /// Syncs what is at these paths at once, and the folders above. Returns false if that must be done one by one.
    pub fn sync_paths(&self, paths: &[PathBuf]) -> bool {
        self.sync_devices(paths.iter().map(|path| Ok(fs::symlink_metadata(path)?.dev())))
    }

    fn sync_devices(&self, devices: impl Iterator<Item = io::Result<u64>>) -> bool {
        if !self.is_whole {
            return false;
        }
        let mut count = 0;
        for device in devices {
            // Another file system may be mounted below the folder.
            if !device.is_ok_and(|device| device == self.device) {
                return false;
            }
            count += 1;
        }
        // After an error, the caller syncs them one by one, so that the error is found for its file.
        count >= MIN_WHOLE_SYNC_FILES && syncfs(&self.top).is_ok()
    }
}

/// The results of syncing folders.
pub struct SyncedFolders(BTreeMap<PathBuf, io::Result<()>>);

/// Syncs the folders above `paths` up to `top`, each once, so that names in them survive a power cut.
pub fn sync_folders(paths: &[PathBuf], top: &Path) -> SyncedFolders {
    let above = |path: &PathBuf| -> Vec<PathBuf> {
        let folders = path.ancestors().skip(1).take_while(|folder| folder.starts_with(top));
        folders.map(Path::to_owned).collect()
    };
    let mut folders: Vec<PathBuf> = paths.iter().flat_map(above).collect();
    folders.sort();
    folders.dedup();
    let synced = map_at_once(STAGING_THREADS, &folders, |folder| File::open(folder)?.sync_all());
    SyncedFolders(folders.into_iter().zip(synced).collect())
}

impl SyncedFolders {
    /// Fails if a folder above a path was not synced.
    pub fn check(&self, path: &Path) -> io::Result<()> {
        match path.ancestors().find_map(|folder| self.0.get(folder)?.as_ref().err()) {
            Some(error) => Err(io::Error::new(error.kind(), error.to_string())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_folder_is_synced_and_one_that_is_gone_fails_those_below_it() {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir_all(top.path().join("a/b")).unwrap();
        let paths = ["a/b/c", "a/d", "gone/e"].map(|path| top.path().join(path));
        let folders = sync_folders(&paths, top.path());
        assert_eq!(folders.0.len(), 4);
        assert!(folders.check(&paths[0]).is_ok() && folders.check(&paths[1]).is_ok());
        assert_eq!(folders.check(&paths[2]).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn few_files_and_those_of_another_file_system_are_synced_one_by_one() {
        let top = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> = (0..8).map(|number| top.path().join(number.to_string())).collect();
        paths.iter().for_each(|path| fs::write(path, "x").unwrap());
        let mut syncing = Syncing::of(File::open(top.path()).unwrap()).unwrap();
        syncing.is_whole = true;
        assert!(syncing.sync_paths(&paths) && !syncing.sync_paths(&paths[..7]));
        assert!(!syncing.sync_paths(&[&paths[..], &["/proc/self".into()]].concat()));
        syncing.is_whole = false;
        assert!(!syncing.sync_paths(&paths));
    }
}
