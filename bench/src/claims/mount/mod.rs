//! The mount: bytes and names, compared with the plain file system and with a bare FUSE proxy, in pairs.

mod bandwidth;
mod names;
mod proxy;

use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use fuser::BackgroundSession;
use terrace::{Config, Files, Store};
use terrace_mount::{Mount, MountError};

use crate::place::Place;
use crate::row::{PageRow, Row};
use proxy::Proxy;

/// The number of pairs; the median pair counts.
const PAIR_COUNT: usize = 5;

pub const PAGE_ROWS: &[PageRow] = &[
    PageRow::made(
        "mount",
        "read 1 MiB requests, nothing cached, beside the plain file system",
        "Read through a mount, nothing cached: share of the plain file system",
    ),
    PageRow::made(
        "mount",
        "read 1 MiB requests, all in the page cache, beside the plain file system",
        "Read through a mount, all cached: share of the page cache",
    ),
];

pub fn run() -> Result<Vec<Row>> {
    let place = Place::new()?;
    let (Some(disk), Some(ram)) = (Mounted::new(&place, "disk")?, Mounted::new(&place, "ram")?) else {
        return Ok(Vec::new());
    };
    let bare = Bare::new(&place)?;
    let mut rows = bandwidth::beside_the_file_system(&place, &disk)?;
    rows.extend(bandwidth::beside_a_proxy(&ram, &bare)?);
    rows.extend(names::run(&ram, &bare)?);
    Ok(rows)
}

/// A mounted store of one tier that keeps one replica.
pub struct Mounted {
    /// The mount's path.
    pub at: PathBuf,
    /// The folder with the tier's bytes.
    tier: PathBuf,
    files: Files,
    _mount: Mount,
}

impl Mounted {
    /// Mounts a store. Returns `None` and prints why if nothing can be mounted.
    pub fn new(place: &Place, tier: &str) -> Result<Option<Mounted>> {
        let root = if tier == "ram" { place.ram() } else { place.disk() };
        let (at, tier) = (root.join("mounted"), root.join("tier"));
        fs::create_dir(&at)?;
        let text = format!(
            "[store]\nreplicas = {{ default = 1 }}\n[[tier]]\nname = 'only'\nkind = 'directory'\ntargets = ['{}']\n",
            tier.display()
        );
        let store = Store::init(&root.join("store"), &Config::parse(&text, "bench")?)?;
        let files = Files::new(&store)?;
        match Mount::begin(&files, &at) {
            Ok(mount) => Ok(Some(Mounted { at, tier, files, _mount: mount })),
            Err(error @ (MountError::NoDevice | MountError::Device(_))) => {
                eprintln!("skipped: {error}");
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// A folder on tmpfs behind the proxy.
struct Bare {
    at: PathBuf,
    _session: BackgroundSession,
}

impl Bare {
    fn new(place: &Place) -> Result<Bare> {
        let (at, below) = (place.ram().join("bare"), place.ram().join("below"));
        fs::create_dir(&at)?;
        fs::create_dir(&below)?;
        let session = proxy::mount(Proxy::new(below), &at)?;
        Ok(Bare { at, _session: session })
    }
}
