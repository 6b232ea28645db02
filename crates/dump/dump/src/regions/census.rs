//! The regions of all ranks, those of the checkpoint and those of now, and the plan that leads from one to the other. Each rank
//! makes the same plan from the same knowledge.

use std::collections::{BTreeMap, BTreeSet};

use crate::regions::shape::{RegionShape, Split};
use crate::transport::World;
use crate::{Error, Result, manifest};

/// The regions of all ranks.
#[derive(Debug, PartialEq, Eq)]
pub struct Census {
    /// The regions of each rank that dumped.
    dumped: BTreeMap<u32, Vec<RegionShape>>,
    /// The regions that each rank protects now.
    wanted: BTreeMap<u32, Vec<RegionShape>>,
}

/// Bytes that go from the rank that has restored them to the one that protects them now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The rank that has restored them.
    pub from: u32,
    /// The rank that gets them.
    pub to: u32,
    /// The region's number.
    pub number: u32,
    /// The rank that dumped them.
    pub dumped_by: u32,
    /// Their position in the dumped region.
    pub offset: u64,
    /// Their position in the region of now.
    pub at: u64,
    /// Their number.
    pub length: u64,
}

/// Bytes `start..end` of an array, which a rank dumped in a part that begins at `part`.
struct Cover {
    start: u64,
    end: u64,
    part: u64,
    dumped_by: u32,
}

impl Census {
    /// Tells all ranks the regions that this rank has restored, by the rank that dumped them, and those that it protects.
    /// Collective.
    pub fn take(
        world: &dyn World,
        dumped: BTreeMap<u32, Vec<RegionShape>>,
        wanted: Vec<RegionShape>,
    ) -> Result<Census> {
        let said = world.all_gather(&manifest::encode(&(dumped, wanted))?)?;
        let mut census = Census { dumped: BTreeMap::new(), wanted: BTreeMap::new() };
        for (rank, said) in (0..).zip(&said) {
            let (dumped, wanted): (BTreeMap<u32, Vec<RegionShape>>, _) = manifest::decode("a rank's regions", said)?;
            census.dumped.extend(dumped);
            census.wanted.insert(rank, wanted);
        }
        Ok(census)
    }

    /// Plans the transfers that fill all regions of now.
    ///
    /// # Errors
    /// [`Error::Refused`] if the regions do not fit those of the checkpoint.
    pub fn plan(&self) -> Result<Vec<Transfer>> {
        self.check_numbers()?;
        let wanted = || self.wanted.iter().flat_map(|(to, regions)| regions.iter().map(move |region| (*to, region)));
        if self.dumped == self.wanted {
            // Each rank gets its own bytes back, also where parts overlap.
            return Ok(wanted().map(|(to, region)| self.whole(to, to, region)).collect());
        }
        let covers = self.cover_arrays();
        let mut transfers = Vec::new();
        for (to, region) in wanted() {
            match region.split {
                Split::Part { start } => {
                    let cover = covers.get(&region.number).map_or(&[][..], Vec::as_slice);
                    transfers.extend(self.part(to, region, start, cover)?);
                }
                Split::Own | Split::Same => transfers.push(self.whole(self.find_owner(to, region)?, to, region)),
            }
        }
        Ok(transfers)
    }

    /// Returns the transfer of a whole region.
    fn whole(&self, dumped_by: u32, to: u32, region: &RegionShape) -> Transfer {
        let RegionShape { number, length, .. } = *region;
        Transfer { from: self.holder(dumped_by), to, number, dumped_by, offset: 0, at: 0, length }
    }

    /// Returns the rank that has restored what a rank dumped, as [`crate::Wanted::Dealt`] says.
    fn holder(&self, dumped_by: u32) -> u32 {
        dumped_by % self.wanted.len() as u32
    }

    /// Checks that the ranks protect regions of the numbers that the checkpoint has.
    fn check_numbers(&self) -> Result<()> {
        let numbers = |ranks: &BTreeMap<u32, Vec<RegionShape>>| -> BTreeSet<u32> {
            ranks.values().flatten().map(|region| region.number).collect()
        };
        let (dumped, wanted) = (numbers(&self.dumped), numbers(&self.wanted));
        match dumped == wanted {
            true => Ok(()),
            false => Err(Error::Refused(format!(
                "the checkpoint has regions {dumped:?}, the program {wanted:?}; protect the same ones first"
            ))),
        }
    }

    /// Returns the rank that dumped the bytes of a region that is not a part.
    fn find_owner(&self, to: u32, region: &RegionShape) -> Result<u32> {
        let number = region.number;
        let (before, now) = (self.dumped.len(), self.wanted.len());
        if region.split == Split::Own && before != now {
            return Err(Error::Refused(format!(
                "region {number} is each rank's own, {before} ranks made the checkpoint, and {now} are here; start as many, or \
                 protect the region as parts or as the same on all ranks before the checkpoint"
            )));
        }
        let of_rank = |rank: &u32| self.dumped.get(rank)?.iter().find(|region| region.number == number);
        // A rank's own bytes are already here.
        let others = self.dumped.keys().filter(|_| region.split == Split::Same);
        let found = std::iter::once(&to).chain(others).find_map(|rank| Some((*rank, of_rank(rank)?)));
        match found {
            Some((rank, dumped)) if dumped == region => Ok(rank),
            Some((rank, dumped)) => Err(Error::Refused(format!(
                "rank {to} protects {} bytes of region {number}, {}, and rank {rank} dumped {} bytes, {}; protect as it did",
                region.length, region.split, dumped.length, dumped.split
            ))),
            None => Err(Error::Refused(format!(
                "rank {to} dumped no region {number}, which is {}; protect the same ones first",
                region.split
            ))),
        }
    }

    /// Returns, for each array, its bytes in order, each byte once, with the rank that dumped it.
    fn cover_arrays(&self) -> BTreeMap<u32, Vec<Cover>> {
        let mut parts: BTreeMap<u32, Vec<(u64, u64, u32)>> = BTreeMap::new();
        for (rank, region) in self.dumped.iter().flat_map(|(rank, regions)| regions.iter().map(move |r| (*rank, r))) {
            if let Split::Part { start } = region.split {
                parts.entry(region.number).or_default().push((start, start.saturating_add(region.length), rank));
            }
        }
        let cover = |mut parts: Vec<(u64, u64, u32)>| {
            parts.sort_unstable();
            let mut covered = 0;
            let mut covers = Vec::new();
            for (part, end, dumped_by) in parts {
                let start = part.max(covered);
                if start < end {
                    covers.push(Cover { start, end, part, dumped_by });
                    covered = end;
                }
            }
            covers
        };
        parts.into_iter().map(|(number, parts)| (number, cover(parts))).collect()
    }

    /// Returns the transfers that fill a part of an array.
    fn part(&self, to: u32, region: &RegionShape, start: u64, cover: &[Cover]) -> Result<Vec<Transfer>> {
        let RegionShape { number, length, .. } = *region;
        let end = start.saturating_add(length);
        let first = cover.partition_point(|cover| cover.end <= start);
        let mut transfers = Vec::new();
        let mut next = start;
        for cover in cover[first..].iter().take_while(|cover| cover.start < end) {
            if cover.start > next {
                break;
            }
            let stop = end.min(cover.end);
            transfers.push(Transfer {
                from: self.holder(cover.dumped_by),
                to,
                number,
                dumped_by: cover.dumped_by,
                offset: next - cover.part,
                at: next - start,
                length: stop - next,
            });
            next = stop;
        }
        match next == end {
            true => Ok(transfers),
            false => Err(Error::Refused(format!(
                "rank {to} protects bytes {start}..{end} of region {number}, and the checkpoint has none at {next}; protect parts of \
                 the array that was dumped"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(number: u32, split: Split, length: u64) -> RegionShape {
        RegionShape { number, split, length }
    }

    /// Ranks that share an array of `bytes` bytes: rank i has those from `cuts[i]` to `cuts[i + 1]`.
    fn parts(cuts: &[u64]) -> BTreeMap<u32, Vec<RegionShape>> {
        let part = |cut: &[u64]| vec![region(1, Split::Part { start: cut[0] }, cut[1] - cut[0])];
        (0..).zip(cuts.windows(2).map(part)).collect()
    }

    fn refused(dumped: BTreeMap<u32, Vec<RegionShape>>, wanted: BTreeMap<u32, Vec<RegionShape>>, words: &str) {
        let told = Census { dumped, wanted }.plan().err().map(|error| error.to_string()).unwrap_or_default();
        assert!(told.contains(words), "{told}");
    }

    /// Fills the regions of now by the transfers, and checks each byte.
    fn fill(dumped: &[u64], wanted: &[u64]) {
        let byte = |at: u64| (at * 7 % 251) as u8;
        let census = Census { dumped: parts(dumped), wanted: parts(wanted) };
        let mut filled = vec![0; *wanted.last().unwrap() as usize];
        for transfer in census.plan().unwrap() {
            assert_eq!(transfer.from, transfer.dumped_by % (wanted.len() as u32 - 1));
            let from = dumped[transfer.dumped_by as usize] + transfer.offset;
            let to = wanted[transfer.to as usize] + transfer.at;
            assert!(from + transfer.length <= dumped[transfer.dumped_by as usize + 1]);
            for i in 0..transfer.length {
                assert_eq!(std::mem::replace(&mut filled[(to + i) as usize], byte(from + i)), 0, "each byte once");
            }
        }
        for at in wanted[0]..*wanted.last().unwrap() {
            assert_eq!(filled[at as usize], byte(at), "byte {at} of {dumped:?} to {wanted:?}");
        }
    }

    #[test]
    fn any_parts_are_filled_from_any_others() {
        for dumped in [&[1, 100][..], &[1, 40, 100], &[1, 1, 30, 31, 100, 100]] {
            for wanted in [&[1, 100][..], &[1, 34, 67, 100], &[5, 40], &[1, 1, 2, 99, 100, 100, 100]] {
                fill(dumped, wanted);
            }
        }
    }

    #[test]
    fn each_rank_gets_its_own_overlapping_part_back() {
        let overlapping: BTreeMap<u32, Vec<RegionShape>> =
            (0..3).map(|rank| (rank, vec![region(1, Split::Part { start: u64::from(rank) * 10 }, 14)])).collect();
        let census = Census { dumped: overlapping.clone(), wanted: overlapping };
        let transfers = census.plan().unwrap();
        assert!(transfers.iter().all(|t| t.from == t.to && t.dumped_by == t.to && (t.offset, t.length) == (0, 14)));
        assert_eq!(transfers.len(), 3);
    }

    #[test]
    fn what_does_not_fit_is_refused_in_words() {
        let (own, same) = (region(2, Split::Own, 9), region(2, Split::Same, 9));
        let ranks = |regions: &[RegionShape]| (0..).zip(regions.iter().map(|region| vec![*region])).collect();
        refused(ranks(&[own; 3]), ranks(&[own; 2]), "3 ranks made the checkpoint, and 2 are here");
        refused(ranks(&[own; 2]), ranks(&[own, RegionShape { length: 8, ..own }]), "protects 8 bytes of region 2");
        refused(ranks(&[own; 2]), ranks(&[same; 3]), "each rank's own");
        refused(ranks(&[same; 2]), ranks(&[RegionShape { number: 3, ..same }; 2]), "has regions {2}, the program {3}");
        refused(parts(&[0, 10, 20]), parts(&[0, 21]), "has none at 20");
        refused(parts(&[5, 10]), parts(&[0, 10]), "has none at 0");
        refused(
            parts(&[0, 9]),
            (0..3).map(|rank| (rank, vec![region(1, Split::Same, 9)])).collect(),
            "parts of an array",
        );
        assert!(Census { dumped: ranks(&[same; 2]), wanted: ranks(&[same; 5]) }.plan().is_ok());
    }
}
