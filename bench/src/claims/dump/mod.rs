//! Claims D1 to D4 (collective replication with deduplication): natural duplicates count as replicas. D5: ranks continue while they
//! are dumped. D6: versions flow to a place that outlives the nodes. D7: programs without code for checkpoints.

mod levels;
mod measured;
mod pages;
mod ranks;
mod simulated;
mod transparent;

use anyhow::Result;

use crate::row::{PageRow, Row};

/// The replication factors of the paper's figures.
const REPLICATION_FACTORS: std::ops::RangeInclusive<u32> = 1..=6;
/// One rank's share of the network link of a node in the paper: gigabit Ethernet for twelve ranks.
const LINK_BYTES_PER_SECOND: f64 = 125e6 / 12.0;
/// One rank's share of the hard disk of a node in the paper.
const DISK_BYTES_PER_SECOND: f64 = 100e6 / 12.0;

pub const PAGE_ROWS: &[PageRow] = &[
    PageRow::real(
        "D1",
        "HPCCG 20^3, factor 3: faster than full replication",
        "Dump 8 ranks with 3 copies: times faster than full copies, beside the paper's",
    ),
    PageRow::real(
        "D5",
        "our CG 32^3, factor 3, the first checkpoint: the ranks stop, of a synchronous dump",
        "First checkpoint of 8 ranks that continue: the part of a synchronous dump for which they stop",
    ),
];

pub fn run() -> Result<Vec<Row>> {
    let mut rows = simulated::run()?;
    if let Some(pages) = pages::hpccg()? {
        rows.extend(measured::factors("HPCCG 20^3", &pages)?);
        rows.extend(measured::codec("HPCCG 20^3", &pages)?);
        rows.extend(measured::stop("HPCCG 20^3", &pages)?);
        rows.extend(simulated::chunk_sizes("HPCCG 20^3", &pages)?);
        rows.extend(simulated::partners("HPCCG 20^3", &pages)?);
    }
    if let Some(pages) = pages::conjugate_gradients()? {
        rows.extend(measured::factors("our CG 32^3", &pages)?);
        rows.extend(measured::stop("our CG 32^3", &pages)?);
        rows.extend(simulated::chunk_sizes("our CG 32^3", &pages)?);
        rows.extend(simulated::partners("our CG 32^3", &pages)?);
    }
    rows.extend(measured::unique()?);
    let of_ranks = ranks::run()?;
    // Without MPI, there are no rows of ranks.
    if !of_ranks.is_empty() {
        rows.extend(of_ranks);
        rows.extend(transparent::run()?);
    }
    rows.extend(levels::run()?);
    Ok(rows)
}
