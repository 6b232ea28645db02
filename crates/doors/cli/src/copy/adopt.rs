//! Adopts files: makes them objects without copying their bytes.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::OFlags;
use terrace::Store;
use terrace::tier::Adoption;

use super::put_options::Put;
use super::tree::{Item, check_not_own};
use crate::output::{Show, path_name};

/// The number of files that were adopted in each way.
#[derive(Clone, Copy, Default)]
pub struct AdoptedCounts {
    cloned: u64,
    linked: u64,
}

impl AdoptedCounts {
    pub fn add(&mut self, other: AdoptedCounts) {
        self.cloned += other.cloned;
        self.linked += other.linked;
    }

    pub fn count(&mut self, how: Option<Adoption>) {
        self.cloned += u64::from(how == Some(Adoption::Cloned));
        self.linked += u64::from(how == Some(Adoption::Linked));
    }

    pub fn show(self, show: Show) -> Result<()> {
        let AdoptedCounts { cloned, linked } = self;
        show.line(&format!("{cloned} as clones, {linked} as hard links"))?;
        if linked > 0 {
            show.line("do not change files with a hard link in place; write a new file, and rename it")?;
        }
        Ok(())
    }
}

/// Checks that files can be adopted from a place.
pub fn check_adoptable(store: &Store, put: &Put) -> Result<()> {
    if put.source.as_os_str() == "-" || put.snapshot {
        bail!("only files are adopted, and as they are; use `terrace put` for standard input and --snapshot");
    }
    let source = fs::canonicalize(&put.source).with_context(|| format!("reading {}", path_name(&put.source)))?;
    check_not_own(store, &put.source)?;
    let kind = fs::metadata(&source).with_context(|| format!("reading {}", path_name(&put.source)))?.file_type();
    ensure!(
        kind.is_file() || kind.is_dir(),
        "{} is a pipe, a socket or a device; `terrace put` copies what it gives",
        path_name(&put.source)
    );
    Ok(())
}

/// Opens the file that was listed.
pub fn open_to_adopt(item: &Item) -> Result<File> {
    let file = File::options().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(&item.path)?;
    let opened = file.metadata()?;
    let is_same = (opened.dev(), opened.ino()) == (item.metadata.dev(), item.metadata.ino());
    ensure!(is_same, io::Error::other("another file has taken its place; adopt it again"));
    Ok(file)
}
