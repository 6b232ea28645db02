//! Step 2, together: tables merge along a tree of ranks, and all ranks learn what came of it.

use crate::table::{Bounds, Table};
use crate::transport::World;
use crate::{Error, Result};

/// From which ranks one merges, in order, and to which it then sends; rank 0 sends to none. A binomial tree: each rank
/// receives from at most log2 of their number.
pub fn tree(rank: u32, size: u32) -> (Vec<u32>, Option<u32>) {
    let mut from = Vec::new();
    let mut step = 1;
    while step < size {
        if rank & step != 0 {
            return (from, Some(rank - step));
        }
        from.extend(Some(rank + step).filter(|other| *other < size));
        step *= 2;
    }
    (from, None)
}

/// The chunks that more than one rank has, as far as they fit: the same on each rank. Collective.
pub fn reduce(world: &dyn World, mine: Table, bounds: Bounds) -> Result<Table> {
    let (from, to) = tree(world.rank(), world.size());
    let mut table = mine;
    for other in &from {
        table = table.merge(decode(&world.receive(*other)?)?, bounds);
    }
    let shared = match to {
        Some(to) => {
            world.send(to, &encode(&table)?)?;
            // The tree again, downwards.
            world.receive(to)?
        }
        None => encode(&table.shared())?,
    };
    for other in from.iter().rev() {
        world.send(*other, &shared)?;
    }
    decode(&shared)
}

/// A table as it is sent.
pub fn encode(table: &Table) -> Result<Vec<u8>> {
    postcard::to_stdvec(table).map_err(|e| Error::damaged("a table of chunks", e))
}

fn decode(bytes: &[u8]) -> Result<Table> {
    postcard::from_bytes(bytes).map_err(|e| Error::damaged("a table of chunks", e))
}

#[cfg(test)]
mod tests {
    use smallvec::SmallVec;

    use super::*;
    use crate::chunk::Hash;
    use crate::table::{Entry, Holder};
    use crate::transport::threads::Threads;

    #[test]
    fn the_tree_has_every_rank_once_and_is_as_deep_as_a_logarithm() {
        for size in 1..200u32 {
            let mut met = vec![0; size as usize];
            for rank in 0..size {
                let (from, to) = tree(rank, size);
                assert!(from.len() <= size.next_power_of_two().ilog2() as usize);
                assert_eq!(to.is_none(), rank == 0);
                for other in from {
                    assert_eq!(tree(other, size).1, Some(rank));
                    met[other as usize] += 1;
                }
            }
            assert!(met[1..].iter().all(|times| *times == 1) && met[0] == 0);
        }
    }

    #[test]
    fn all_ranks_learn_what_more_than_one_has() {
        let nodes = [0, 0, 1, 1, 2, 2, 3];
        let bounds = Bounds { entries: 100, nodes: 3 };
        let tables = Threads::on(&nodes).run(|world| {
            let rank = world.rank();
            // Chunk 0 all have, chunk 1 the odd ranks, the others one each.
            let mine = [Some(0), (rank % 2 == 1).then_some(1), Some(2 + rank)];
            let entry = |chunk: u32| Entry {
                hash: Hash::of(&chunk.to_le_bytes()),
                length: 7,
                ranks: 1,
                stored: SmallVec::new(),
                holders: SmallVec::from_slice(&[Holder { node: world.node(), rank }]),
            };
            reduce(world, Table::new(mine.into_iter().flatten().map(entry).collect(), bounds), bounds)
        });
        let tables: Vec<Table> = tables.into_iter().map(|table| table.expect("reduces")).collect();
        let shared =
            |chunk: u32| tables[0].get(&Hash::of(&chunk.to_le_bytes())).map(|(_, e)| (e.ranks, e.holders.len()));
        assert_eq!([shared(0), shared(1), shared(2)], [Some((7, 3)), Some((3, 3)), None]);
        assert_eq!(tables[0].entries().len(), 2);
        assert!(tables.iter().all(|table| *table == tables[0]));
    }
}
