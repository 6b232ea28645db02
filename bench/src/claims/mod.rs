//! The measurements, one file each.

pub mod c2;
pub mod c3;
pub mod c8;
pub mod c9;
pub mod cluster;
pub mod dump;
pub mod flush;
pub mod h3;
pub mod h4;
pub mod h7;
pub mod h9;
pub mod large;
pub mod memory;
pub mod mount;
pub mod origins;
pub mod overhead;
pub mod papers;
pub mod parts;
pub mod peers;
pub mod preload;
pub mod python;
pub mod rebuild;
pub mod redis;
pub mod regret;
pub mod remote;
pub mod replicas;
pub mod s3;
pub mod scale;
pub mod served;
pub mod shares;
pub mod simulate;
pub mod small;
pub mod stage;
pub mod throttle;
pub mod vfd;
pub mod views;

use anyhow::Result;

use crate::row::{PageRow, Row};

/// A measurement: one function that makes rows.
pub struct Measurement {
    /// The id. The ids of its rows begin with it.
    pub id: &'static str,
    /// The title for `--list`.
    pub title: &'static str,
    /// Measures and returns the rows.
    pub run: fn() -> Result<Vec<Row>>,
    /// The table of docs/benchmarks.md that shows its rows.
    pub table: PageTable,
    /// The rows that docs/benchmarks.md shows.
    pub page_rows: &'static [PageRow],
}

/// A table of docs/benchmarks.md.
#[derive(Clone, Copy, PartialEq)]
pub enum PageTable {
    /// Comparisons with common tools.
    Tools,
    /// Comparisons with figures of papers.
    Papers,
    /// Measurements without a figure of others.
    Limits,
}

type Run = fn() -> Result<Vec<Row>>;

const fn beside_tools(id: &'static str, title: &'static str, run: Run, page_rows: &'static [PageRow]) -> Measurement {
    Measurement { id, title, run, table: PageTable::Tools, page_rows }
}

const fn beside_papers(id: &'static str, title: &'static str, run: Run, page_rows: &'static [PageRow]) -> Measurement {
    Measurement { id, title, run, table: PageTable::Papers, page_rows }
}

const fn limits(id: &'static str, title: &'static str, run: Run, page_rows: &'static [PageRow]) -> Measurement {
    Measurement { id, title, run, table: PageTable::Limits, page_rows }
}

/// All measurements, in the order in which they run.
pub const ALL_MEASUREMENTS: &[Measurement] = &[
    beside_papers(
        "H1",
        "written once, read ten times: devices of one kind, or of three",
        papers::h1,
        papers::H1_PAGE_ROWS,
    ),
    beside_papers("H2", "what of writes and reads is neither I/O nor codec", shares::replicas, shares::PAGE_ROWS),
    beside_papers("H3", "plans a second, alone and in a real stream of writes", h3::run, &[]),
    beside_papers("H4", "catalog: stores and locates per second", h4::run, h4::PAGE_ROWS),
    beside_papers("H5", "BD-CATS-IO: what was replicated is read 16 times", papers::h5, papers::H5_PAGE_ROWS),
    beside_papers("H6", "VPIC-IO: as many replicas as the storage of three holds", papers::h6, papers::H6_PAGE_ROWS),
    beside_papers("H7", "Redis: sensor records are written, then read, over three servers", h7::run, h7::PAGE_ROWS),
    beside_papers("H9", "replicas of a piece: 1 to 5, at each level", h9::run, &[]),
    beside_papers("C0", "VPIC-IO: tiers alone, an encoding alone, and both", papers::c0, papers::C0_PAGE_ROWS),
    beside_papers("C1", "what of tasks with compression is neither I/O nor codec", shares::compression, &[]),
    beside_papers("C2", "tasks planned in a second", c2::run, &[]),
    beside_papers("C3", "predictions of ratio and speeds against what came, on real files", c3::run, c3::PAGE_ROWS),
    beside_papers("C4", "tasks placed by what is stored, or by what is given", papers::c4, &[]),
    beside_papers(
        "C5",
        "tasks written and read under one encoding everywhere, or under each tier's best",
        papers::c5,
        papers::C5_PAGE_ROWS,
    ),
    beside_papers("C6", "VPIC-IO in ten steps, with computing between them", papers::c6, papers::C6_PAGE_ROWS),
    beside_papers("C7", "VPIC-IO in ten steps, then BD-CATS-IO", papers::c7, papers::C7_PAGE_ROWS),
    beside_papers(
        "regret",
        "the cost of what is chosen over an oracle's that runs every encoding, on real files",
        regret::run,
        regret::PAGE_ROWS,
    ),
    limits("parts", "records by their fields: ratio and speeds, beside the best encoding without", parts::run, &[]),
    beside_papers("C8", "codecs behind one interface", c8::run, &[]),
    beside_papers("C9", "frames that describe themselves; the catalog from the tiers alone", c9::run, &[]),
    beside_papers(
        "D",
        "dumps of many ranks: time, bytes and the largest receive, with natural duplicates counted",
        dump::run,
        dump::PAGE_ROWS,
    ),
    beside_papers(
        "R1",
        "streams: latency from accept to durable, beside batches",
        flush::latency,
        flush::LATENCY_PAGE_ROWS,
    ),
    beside_papers("R2", "streams: bandwidth, beside batches", flush::bandwidth, flush::BANDWIDTH_PAGE_ROWS),
    beside_papers(
        "R3",
        "streams: each request once and in order; what is buffered meanwhile",
        flush::exactly_once,
        &[],
    ),
    beside_tools("mover", "the store's own flushing: pulled all the time, beside batches", flush::mover::run, &[]),
    beside_tools("dropped", "files dropped into a directory, beside rsync in a loop", flush::dropped::run, &[]),
    beside_tools(
        "small",
        "put and get of 4 KiB and 64 KiB objects, beside SQLite and plain files",
        small::run,
        small::PAGE_ROWS,
    ),
    beside_papers("S1", "`terrace simulate` against real runs on throttled tiers", simulate::real, &[]),
    beside_papers(
        "S2",
        "`terrace simulate` of the papers' cluster, at 2,560 processes, against their ratios",
        simulate::papers,
        &[],
    ),
    beside_papers("S3", "`terrace simulate` of 10,000 processes", simulate::many, &[]),
    beside_tools(
        "P1",
        "put and get from Python with a second copy, beside IOWarp on the same tiers, in pairs",
        peers::speeds,
        peers::SPEED_PAGE_ROWS,
    ),
    beside_tools(
        "P2",
        "what is lost by kill -9, and what a damaged copy gives, beside IOWarp",
        peers::damage,
        peers::DAMAGE_PAGE_ROWS,
    ),
    beside_tools(
        "P3",
        "a directory of real files stored and read, beside cp, rclone and restic, in pairs",
        peers::tools::run,
        peers::tools::PAGE_ROWS,
    ),
    beside_tools("stage", "inputs and results of a job, compared, beside cp, sync and diff, in pairs", stage::run, &[]),
    beside_tools("large", "put and get of one large object, beside cp", large::run, &[]),
    limits("overhead", "time outside hashing and I/O; bytes written per byte", overhead::run, &[]),
    limits("rebuild", "the catalog rebuilt from the log", rebuild::run, &[]),
    limits("scale", "calls in a store with many objects, beside one with few", scale::run, scale::PAGE_ROWS),
    limits("memory", "a 3 GiB file in bounded memory", memory::run, memory::PAGE_ROWS),
    beside_tools(
        "mount",
        "a mounted store beside the plain file system and a bare FUSE proxy, in pairs",
        mount::run,
        mount::PAGE_ROWS,
    ),
    beside_tools(
        "preload",
        "reads, writes, opens and stats through the preload library, beside tmpfs and the mount, in turns",
        preload::run,
        preload::PAGE_ROWS,
    ),
    beside_tools(
        "python",
        "put and get of 4 KiB and 1 MiB from Python, beside plain files and fsspec's local ones",
        python::run,
        python::PAGE_ROWS,
    ),
    beside_tools(
        "origins",
        "the mean of a Zarr array in a bucket through `terrace::s3://`, beside s3fs alone and other caches, in turns",
        origins::run,
        &[],
    ),
    beside_tools(
        "vfd",
        "datasets by h5py and the driver for HDF5, beside HDF5's own driver on tmpfs and on a mount, in pairs",
        vfd::run,
        vfd::PAGE_ROWS,
    ),
    beside_tools(
        "redis",
        "`terrace serve redis` beside redis-server, one request at a time and by 16, in pairs",
        redis::run,
        redis::PAGE_ROWS,
    ),
    beside_tools(
        "serve-s3",
        "`terrace serve s3` beside versitygw, objects of 4 KiB to 16 MiB, by one client and by 16, in pairs",
        s3::run,
        s3::PAGE_ROWS,
    ),
    limits(
        "remote",
        "a target of another node on loopback, beside a bare copy through one socket, in pairs",
        remote::run,
        &[],
    ),
    limits(
        "cluster",
        "a store that nodes share, beside etcd alone: puts, what others see, bandwidth, faults, bytes",
        cluster::run,
        &[],
    ),
    limits("throttle", "an emulated device's speed against what was set", throttle::run, &[]),
    limits("views", "conversion between layouts, as a share of memcpy's speed", views::run, &[]),
    beside_papers(
        "V",
        "datasets: reading what is not stored, in memory, by 9P and by a mount; keeping several layouts",
        datasets,
        replicas::PAGE_ROWS,
    ),
];

fn datasets() -> Result<Vec<Row>> {
    Ok([replicas::run()?, served::run()?].concat())
}
