//! Displays an [`Explanation`] as text.

use std::fmt;

use super::{Explanation, Replica, Total, Verdict, Weighed};
use crate::plan::{Forbidden, GaveWay};
use crate::snapshot::PAGE_BYTES;
use terrace_cost::Weights;

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.bytes == 0 {
            return writeln!(f, "no bytes: nothing is stored of them");
        }
        let planned = self.replicas.iter().filter(|replica| !replica.pieces.is_empty()).count();
        writeln!(f, "{} bytes, expected to be read {:.2} times", self.bytes, self.reads)?;
        for resolution in &self.resolutions {
            writeln!(f, "{resolution}")?;
        }
        write!(f, "{planned} of {} replicas", self.wanted)?;
        if planned < self.wanted.into() && planned == usize::from(self.domains) {
            write!(f, " ({} failure domains are up)", self.domains)?;
        }
        let unit = if self.energy { "J" } else { "s" };
        let Total { first, then } = self.cost;
        writeln!(f, "; {} bytes stored; cost {first:.6} {unit}, then {then:.6} {unit}", self.stored)?;
        if let Some(budget) = self.budget {
            writeln!(f, "the budget is {}x: {:.0} bytes", budget.0, budget.0 * self.bytes as f64)?;
        }
        for way in &self.gave_way {
            writeln!(f, "{way}")?;
        }
        if !self.proven {
            writeln!(f, "a cheaper plan may exist: the search was cut short")?;
        }
        for (index, replica) in self.replicas.iter().enumerate() {
            self.print_replica(f, index, replica, unit)?;
        }
        Ok(())
    }
}

impl Explanation {
    fn print_replica(&self, f: &mut fmt::Formatter<'_>, index: usize, replica: &Replica, unit: &str) -> fmt::Result {
        let Weights { compress, decompress, ratio } = replica.weights;
        writeln!(f, "replica {index} (w_c {compress:.2}, w_d {decompress:.2}, w_r {ratio:.2})")?;
        if replica.pieces.is_empty() {
            writeln!(f, "  has no place")?;
        }
        for piece in &replica.pieces {
            let (from, to) =
                (u64::from(piece.start) * PAGE_BYTES, (u64::from(piece.end()) * PAGE_BYTES).min(self.bytes));
            writeln!(f, "  bytes {from}..{to} on target {}, {}, {} bytes", piece.target, piece.encoding, piece.stored)?;
        }
        for Weighed { tier, target, encoding, cost, stored, verdict } in &replica.weighed {
            let encoding = encoding.to_string();
            writeln!(f, "  {tier:<10} {target:>3} {encoding:<18} {cost:>13.6} {unit} {stored:>12}  {verdict}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Chosen { pages: 1 } => f.write_str("chosen for 1 page"),
            Verdict::Chosen { pages } => write!(f, "chosen for {pages} pages"),
            Verdict::Dearer { times: Some(times) } => write!(f, "{times:.2} times the cost"),
            Verdict::Dearer { times: None } => f.write_str("dearer: what is chosen costs nothing"),
            Verdict::Yields => f.write_str("cheaper here, but not for all replicas together, or over the budget"),
            Verdict::Taken { replica } => write!(f, "replica {replica} is in the way"),
            Verdict::NoRoom { pages: 1 } => f.write_str("room for 1 page"),
            Verdict::NoRoom { pages } => write!(f, "room for {pages} pages"),
            Verdict::Forbidden(why) => write!(f, "{why}"),
        }
    }
}

impl fmt::Display for Forbidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Forbidden::Down => "cannot be written to",
            Forbidden::Target => "not among the targets that are allowed",
            Forbidden::Tier => "not among the tiers that are allowed",
            Forbidden::Latency => "above the highest latency",
            Forbidden::Volatile => "does not outlive a reboot",
            Forbidden::Plain => "holds bytes as they are",
            Forbidden::RawFirst => "replica 0 is to be raw",
            Forbidden::Pinned => "another encoding is asked for",
        })
    }
}

impl fmt::Display for GaveWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GaveWay::RawFirst => "there is no room for a raw replica",
            GaveWay::DistinctTiers => "replicas share a tier: there are too few with room",
            GaveWay::Pieces => "a replica has more pieces than there are tiers",
            GaveWay::Targets => "tiers and the highest latency do not hold: otherwise the write would fail",
            GaveWay::Budget => "the fewest replicas that are allowed need more than the budget",
        })
    }
}
