//! The arguments that must be the same on all ranks. Ranks with different arguments would wait for each other forever.

use std::collections::BTreeMap;
use std::fmt;

use crate::chunk::Hash;
use crate::error::Difference;
use crate::manifest;
use crate::transport::World;
use crate::{Error, Result};

/// The call of a rank and, as text, each option that must be the same on all ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms(BTreeMap<String, String>);

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is ", self.option)?;
        for (i, (value, ranks)) in self.values.iter().enumerate() {
            let before = if i > 0 { ", " } else { "" };
            write!(f, "{before}{} on {}", value.as_deref().unwrap_or("unknown"), Ranks(ranks))?;
        }
        Ok(())
    }
}

impl Terms {
    /// Creates the terms of a call.
    pub fn of(call: &str) -> Terms {
        Terms::default().with("call", call)
    }

    /// Adds an option.
    pub fn with(mut self, option: &str, value: impl fmt::Display) -> Terms {
        self.0.insert(option.to_owned(), value.to_string());
        self
    }

    /// Checks that all ranks have the same terms. Collective. It must be the first collective call, since all later
    /// ones may depend on the terms.
    ///
    /// # Errors
    /// [`Error::Differ`] on all ranks, with the same message.
    pub fn agree(&self, world: &dyn World) -> Result<()> {
        let mine = manifest::encode(&self.0)?;
        // Compare short hashes first: the terms are usually equal.
        let hash = Hash::of(&mine).0;
        if world.all_gather(&hash)?.iter().all(|other| *other == hash) {
            return Ok(());
        }
        let said = world.all_gather(&mine)?;
        let decode = |said: &Vec<u8>| manifest::decode("what a rank is asked for", said).map(Terms);
        let said = said.iter().map(decode).collect::<Result<Vec<Terms>>>()?;
        Err(Error::Differ(find_differences(&said)))
    }
}

/// Returns the differences of the ranks' terms. If the calls differ, returns only that difference.
fn find_differences(said: &[Terms]) -> Vec<Difference> {
    let options: std::collections::BTreeSet<&String> = said.iter().flat_map(|terms| terms.0.keys()).collect();
    let mut found = Vec::new();
    for option in options {
        let mut values: BTreeMap<Option<&String>, Vec<u32>> = BTreeMap::new();
        for (rank, terms) in (0..).zip(said) {
            values.entry(terms.0.get(option)).or_default().push(rank);
        }
        if values.len() > 1 {
            let mut values: Vec<_> = values.into_iter().map(|(value, ranks)| (value.cloned(), ranks)).collect();
            values.sort_by_key(|(_, ranks)| std::cmp::Reverse(ranks.len()));
            found.push(Difference { option: option.clone(), values });
        }
    }
    match found.iter().position(|difference| difference.option == "call") {
        Some(call) => vec![found.swap_remove(call)],
        None => found,
    }
}

/// Formats ranks, as `rank 3` or `ranks 0-2 and 5`.
struct Ranks<'a>(&'a [u32]);

/// An error message lists at most this many runs of ranks.
const MAX_NAMED_RUNS: usize = 8;

impl fmt::Display for Ranks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs: Vec<&[u32]> = self.0.chunk_by(|a, b| a + 1 == *b).collect();
        let name = |run: &&[u32]| match run {
            [one] => one.to_string(),
            [first, .., last] => format!("{first}-{last}"),
            [] => String::new(),
        };
        let named: Vec<String> = runs.iter().take(MAX_NAMED_RUNS).map(name).collect();
        let more = if runs.len() > MAX_NAMED_RUNS { ", ..." } else { "" };
        write!(f, "rank{} {}{more}", if self.0.len() == 1 { "" } else { "s" }, named.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::threads::Threads;

    fn told(terms: &(dyn Fn(u32) -> Terms + Sync), ranks: usize) -> Vec<String> {
        let said = Threads::on(&vec![0; ranks]).run(|world| terms(world.rank()).agree(world));
        said.into_iter().map(|said| said.err().map_or_else(String::new, |error| error.to_string())).collect()
    }

    #[test]
    fn all_ranks_get_the_same_report_of_differences() {
        let same = told(&|_| Terms::of("dump").with("replicas", 3), 4);
        assert_eq!(same, [""; 4]);
        let terms = |rank: u32| {
            let terms = Terms::of("dump").with("replicas", if rank == 2 { 3 } else { 2 }).with("window", 7);
            if rank == 5 { terms.with("table", 1) } else { terms }
        };
        let words = "the ranks are asked for different things: replicas is 2 on ranks 0-1, 3-5, 3 on rank 2; \
                     table is unknown on ranks 0-4, 1 on rank 5; ask all for the same";
        assert_eq!(told(&terms, 6), [words; 6]);
        let calls = told(&|rank| Terms::of(if rank == 0 { "restore" } else { "dump" }).with("x", rank), 2);
        assert!(calls.iter().all(|words| words.contains("call is ") && !words.contains("x is")), "{calls:?}");
    }
}
