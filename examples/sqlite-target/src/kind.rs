//! The kind: checks, opens, finds and removes its targets.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace::tier::{Capabilities, OpenedTarget, TargetFound, TargetKind, TargetOwner, TargetSettings};

use crate::target::{SqliteTarget, connect, count_bytes, read_mark};

/// The page sizes that SQLite takes, in bytes.
const PAGE_SIZES: std::ops::RangeInclusive<u32> = 512..=65_536;
const DEFAULT_PAGE_SIZE: u32 = 4096;

/// SQLite files.
pub struct SqliteKind;

/// The option `page_size`.
fn page_size(settings: &TargetSettings) -> Result<u32, String> {
    let Some(text) = settings.options.get("page_size") else { return Ok(DEFAULT_PAGE_SIZE) };
    let size = text.parse().ok().filter(|size: &u32| PAGE_SIZES.contains(size) && size.is_power_of_two());
    size.ok_or_else(|| format!("option page_size: {text:?} is no power of two from 512 to 65536"))
}

/// The marker in the file at this path, with the bytes of its frames; none where no target is there.
fn find_marker(path: &Path) -> io::Result<Option<(String, u64)>> {
    if !path.try_exists()? {
        return Ok(None);
    }
    let connection = connect(path, false)?;
    match read_mark(&connection)? {
        Some(mark) => Ok(Some((mark, count_bytes(&connection)?))),
        None => Ok(None),
    }
}

impl TargetKind for SqliteKind {
    fn capabilities(&self) -> Capabilities {
        Capabilities { local_path: true, ..Capabilities::default() }
    }

    fn check(&self, settings: &TargetSettings) -> Result<(), String> {
        if settings.service.is_some() {
            return Err("a SQLite file needs no service; leave it out".into());
        }
        if let Some(unknown) = settings.options.keys().find(|option| *option != "page_size") {
            return Err(format!("unknown option {unknown:?}; there is page_size"));
        }
        page_size(settings).map(drop)
    }

    fn probe(&self, settings: &TargetSettings) -> io::Result<()> {
        let path = settings.path.display();
        match find_marker(&settings.path)? {
            None => fs::create_dir_all(settings.path.parent().unwrap_or(Path::new("/"))),
            Some((mark, _)) => {
                let reason = format!("{path} belongs to another store or target ({})", mark.replace('\n', " "));
                Err(io::Error::new(io::ErrorKind::AlreadyExists, reason))
            }
        }
    }

    fn open(&self, settings: &TargetSettings, owner: &TargetOwner) -> io::Result<OpenedTarget> {
        let wrong = |reason| io::Error::new(io::ErrorKind::InvalidInput, reason);
        let page_size = page_size(settings).map_err(wrong)?;
        OpenedTarget::open(Arc::new(SqliteTarget::new(settings, owner, page_size)), owner)
    }

    fn find(&self, settings: &TargetSettings, owner: &TargetOwner) -> io::Result<TargetFound> {
        Ok(match find_marker(&settings.path)? {
            Some((mark, used)) if mark == owner.mark() => TargetFound::Own { used },
            Some((mark, _)) => TargetFound::Another(mark),
            None => TargetFound::Nothing,
        })
    }

    fn remove(&self, settings: &TargetSettings, owner: &TargetOwner) -> io::Result<Vec<PathBuf>> {
        // Frames and marker are one file. To read the marker rolls back the journal of a writer that was killed, so none is left.
        if let TargetFound::Own { .. } = self.find(settings, owner)? {
            owner.forget_made()?;
            fs::remove_file(&settings.path)?;
        }
        Ok(Vec::new())
    }
}
