//! What is measured, one file each.

pub mod c2;
pub mod c3;
pub mod c8;
pub mod c9;
pub mod dump;
pub mod flush;
pub mod h3;
pub mod h4;
pub mod h9;
pub mod large;
pub mod memory;
pub mod mount;
pub mod overhead;
pub mod papers;
pub mod peers;
pub mod python;
pub mod rebuild;
pub mod regret;
pub mod replicas;
pub mod served;
pub mod shares;
pub mod simulate;
pub mod small;
pub mod throttle;
pub mod views;

use anyhow::Result;

use crate::row::Row;

/// Measures one claim.
type Run = fn() -> Result<Vec<Row>>;

/// All, by id.
pub const ALL: &[(&str, &str, Run)] = &[
    ("H1", "written once, read ten times: devices of one kind, or of three", papers::h1),
    ("H2", "what of writes and reads is neither I/O nor codec", shares::replicas),
    ("H3", "plans a second, alone and in a real stream of writes", h3::run),
    ("H4", "catalog: stores and locates per second", h4::run),
    ("H5", "BD-CATS-IO: what was replicated is read 16 times", papers::h5),
    ("H6", "VPIC-IO: as many replicas as the storage of three holds", papers::h6),
    ("H9", "replicas of a piece: 1 to 5, at each level", h9::run),
    ("C0", "VPIC-IO: tiers alone, an encoding alone, and both", papers::c0),
    ("C1", "what of tasks with compression is neither I/O nor codec", shares::compression),
    ("C2", "tasks planned in a second", c2::run),
    ("C3", "predictions of ratio and speeds against what came, on real files", c3::run),
    ("C4", "tasks placed by what is stored, or by what is given", papers::c4),
    ("C5", "tasks written and read under one encoding everywhere, or under each tier's best", papers::c5),
    ("C6", "VPIC-IO in ten steps, with computing between them", papers::c6),
    ("C7", "VPIC-IO in ten steps, then BD-CATS-IO", papers::c7),
    ("regret", "the cost of what is chosen over an oracle's that runs every encoding, on real files", regret::run),
    ("C8", "codecs behind one interface", c8::run),
    ("C9", "frames that describe themselves; the catalog from the tiers alone", c9::run),
    ("D", "dumps of many ranks: time, bytes and the largest receive, with natural duplicates counted", dump::run),
    ("R1", "streams: latency from accept to durable, beside batches", flush::latency),
    ("R2", "streams: bandwidth, beside batches", flush::bandwidth),
    ("R3", "streams: each request once and in order; what is buffered meanwhile", flush::exactly_once),
    ("mover", "the store's own flushing: pulled all the time, beside batches", flush::mover::run),
    ("dropped", "files dropped into a directory, beside rsync in a loop", flush::dropped::run),
    ("small", "put and get of 4 KiB and 64 KiB objects, beside SQLite and plain files", small::run),
    ("S1", "`terrace simulate` against real runs on throttled tiers", simulate::real),
    ("S2", "`terrace simulate` of the papers' cluster, at 2,560 processes, against their ratios", simulate::papers),
    ("S3", "`terrace simulate` of 10,000 processes", simulate::many),
    ("P1", "put and get from Python with a second copy, beside IOWarp on the same tiers, in pairs", peers::speeds),
    ("P2", "what is lost by kill -9, and what a damaged copy gives, beside IOWarp", peers::damage),
    ("P3", "a directory of real files stored and read, beside cp, rclone and restic, in pairs", peers::tools::run),
    ("large", "put and get of one large object, beside cp", large::run),
    ("overhead", "time outside hashing and I/O; bytes written per byte", overhead::run),
    ("rebuild", "the catalog made anew from the log", rebuild::run),
    ("memory", "a 3 GiB file in bounded memory", memory::run),
    ("mount", "a mounted store beside the plain file system and a bare FUSE proxy, in pairs", mount::run),
    ("python", "put and get of 4 KiB and 1 MiB from Python, beside plain files and fsspec's local ones", python::run),
    ("throttle", "an emulated device's speed against what was set", throttle::run),
    ("views", "conversion between layouts, as a share of memcpy's speed", views::run),
    ("V", "datasets: reading what is not stored, in memory, by 9P and by a mount; keeping several layouts", datasets),
];

fn datasets() -> Result<Vec<Row>> {
    Ok([replicas::run()?, served::run()?].concat())
}
