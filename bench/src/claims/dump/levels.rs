//! D6: a version flows from the nodes' stores to a directory that outlives them.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use terrace::{Config, Store};
use terrace_dump::archive::Archive;
use terrace_dump::transport::World;
use terrace_dump::transport::threads::Threads;
use terrace_dump::{Flowed, Options, dump, flow};

use crate::place::{Place, random_bytes};
use crate::row::{Better, Row};
use crate::size::Size;
use crate::timing::{median, time};

/// Each rank is on a node of its own.
const RANK_NODES: [u32; 4] = [0, 1, 2, 3];
const RANK_BYTES: usize = 64 << 20;

/// Lets a version flow to a directory on disk, and copies the packs that it has there by `cp` to another directory, by turns.
pub fn run() -> Result<Vec<Row>> {
    let place = Place::new()?;
    let stores = RANK_NODES.map(|node| make_store(&place.disk().join(node.to_string())));
    let stores = stores.into_iter().collect::<Result<Vec<Store>>>()?;
    let made = Threads::on(&RANK_NODES).run(|world| {
        let bytes = random_bytes(RANK_BYTES, u64::from(world.rank()) + 1);
        dump(world, &stores[world.rank() as usize], "bench", &[&bytes], &Options { replicas: 2, ..Options::default() })
    });
    made.into_iter().collect::<terrace_dump::Result<Vec<_>>>()?;
    let (to, copied) = (place.disk().join("archive"), place.disk().join("copied"));
    let (mut flows, mut copies, mut repeated, mut packs) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for _ in 0..Size::get().of(1, 3, 5) {
        sync(place.disk())?;
        let (seconds, flowed) = time(|| flow_to(&stores, &to))?;
        ensure!(flowed.bytes == (RANK_NODES.len() * RANK_BYTES) as u64, "{flowed:?}");
        (packs, _) = (flowed.packs, flows.push(seconds));
        repeated.push(time(|| flow_to(&stores, &to))?.0);
        let (seconds, ()) = time(|| {
            copy(&to.join("dumps/bench/packs"), &copied)?;
            sync(&copied)
        })?;
        copies.push(seconds);
        fs::remove_dir_all(&to)?;
        fs::remove_dir_all(&copied)?;
    }
    let (flowed, copied, repeated) = (median(flows), median(copies), median(repeated));
    let megabytes = (RANK_NODES.len() * RANK_BYTES) as f64 / 1e6;
    let row = Row::new("D6", "a version flows to a directory on disk", megabytes / flowed, "MB/s");
    let details = format!(
        "4 ranks on 4 nodes of one machine, {megabytes:.0} MB of distinct chunks in {packs} packs, each synced and read back from the disk: \
         {flowed:.2} s; beside: `cp` of the packs and a sync, {copied:.2} s; the same version again, which reads all packs: {repeated:.2} s"
    );
    Ok(vec![row.beside(megabytes / copied, Better::Higher).details(details)])
}

fn make_store(dir: &Path) -> Result<Store> {
    let rule = "[[rule]]\nprefix = 'dumps/'\nencoding = 'none'\n";
    let text =
        format!("{rule}[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\n", dir.join("disk").display());
    Ok(Store::init(&dir.join("store"), &Config::parse(&text, "bench")?)?)
}

fn flow_to(stores: &[Store], to: &Path) -> Result<Flowed> {
    let flowed = Threads::on(&RANK_NODES).run(|world| {
        let store = &stores[world.rank() as usize];
        let archive = Archive::open(store, &to.to_string_lossy(), &[])?;
        flow(world, store, "bench", None, &archive, None, Options::default().window)
    });
    let flowed = flowed.into_iter().collect::<terrace_dump::Result<Vec<Flowed>>>()?;
    Ok(flowed[0])
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let status = Command::new("cp").args(["--reflink=never", "-r"]).arg(from).arg(to).status()?;
    ensure!(status.success(), "cp: {status}");
    Ok(())
}

fn sync(below: &Path) -> Result<()> {
    Ok(rustix::fs::syncfs(File::open(below)?)?)
}
