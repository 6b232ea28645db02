//! Finds the parts of a long file that the files of other replicas store. Every other byte is zero in all of them.

use std::ops::Range;
use std::sync::Arc;

use terrace::Store;
use terrace_views::convert::{Plan, Stored};

use crate::attempt::{Attempt, AttemptError};
use crate::loaded::Loaded;
use crate::state::State;

/// Stored extents less than this apart are treated as one.
const STORED_GAP_BYTES: u64 = 1 << 20;

/// A file of another replica, as it was when its parts were found.
#[derive(PartialEq, Eq)]
struct Source {
    file: usize,
    /// The number and the generation of its object.
    version: (u64, u64),
    lacking: Vec<Range<u64>>,
}

/// The parts of one file that its sources store or lack.
struct StoredParts {
    /// Held, so that no other declaration takes its place in memory.
    loaded: Arc<Loaded>,
    file: usize,
    sources: Vec<Source>,
    /// In order, and disjoint.
    parts: Vec<Range<u64>>,
}

/// The parts that the steps of one update have found. A step looks sources up again only if they have changed, so that its work does not
/// grow with the length of the file.
#[derive(Default)]
pub struct KnownParts {
    found: Option<StoredParts>,
    /// The number of files whose extents were looked up.
    pub lookup_count: u64,
}

impl KnownParts {
    /// Returns the first range of a file, within these bytes, for which the replicas in `used` store or lack bytes.
    pub fn find_first(
        &mut self,
        store: &Store,
        loaded: &Arc<Loaded>,
        state: &State,
        (file, used): (usize, &[bool]),
        within: Range<u64>,
    ) -> Attempt<Option<Range<u64>>> {
        let sources = sources(loaded, state, used);
        let is_known =
            |known: &StoredParts| Arc::ptr_eq(&known.loaded, loaded) && known.file == file && known.sources == sources;
        let known = match self.found.take().filter(is_known) {
            Some(known) => known,
            None => {
                self.lookup_count += sources.len() as u64;
                let parts = find_parts(store, loaded, file, &sources)?;
                StoredParts { loaded: loaded.clone(), file, sources, parts }
            }
        };
        let parts = &self.found.insert(known).parts;
        let next = parts.partition_point(|part| part.end <= within.start);
        let first = parts.get(next).map(|part| part.start.max(within.start)..part.end.min(within.end));
        Ok(first.filter(|part| !part.is_empty()))
    }
}

/// The files of the replicas in `used` that exist.
fn sources(loaded: &Loaded, state: &State, used: &[bool]) -> Vec<Source> {
    let is_used = |replica: usize| used.get(replica) == Some(&true);
    let files = loaded.files.iter().enumerate().filter(|(_, source)| is_used(source.replica));
    let source = |(file, _)| {
        let object = state.object(file)?;
        Some(Source { file, version: (object.id, object.generation), lacking: state.lacking_ranges(file).collect() })
    };
    files.filter_map(source).collect()
}

fn find_parts(store: &Store, loaded: &Loaded, file: usize, sources: &[Source]) -> Attempt<Vec<Range<u64>>> {
    let Some(target) = loaded.files.get(file) else { return Ok(Vec::new()) };
    let stored = Stored { layout: &target.layout, first_file: 0, rate: 1.0 };
    let mut parts: Vec<Range<u64>> = Vec::new();
    for source in sources {
        let Some(from) = loaded.files.get(source.file) else { continue };
        let located = store.locate(&from.key)?;
        if located.generation != source.version.1 {
            return Err(AttemptError::Changed);
        }
        let plan = Plan::writing(&from.layout, stored);
        let mut runs: Vec<Range<u64>> = Vec::new();
        for extent in located.extents {
            let end = (extent.offset + extent.length).min(plan.length());
            match runs.last_mut() {
                Some(last) if extent.offset <= last.end.saturating_add(STORED_GAP_BYTES) => {
                    last.end = last.end.max(end)
                }
                _ if extent.offset < end => runs.push(extent.offset..end),
                _ => {}
            }
        }
        runs.extend(source.lacking.iter().filter(|lacked| lacked.start < plan.length()).cloned());
        for run in runs {
            let run = run.start..run.end.min(plan.length());
            let touched = plan.touches(run.start, run.end - run.start, STORED_GAP_BYTES)?;
            parts.extend(touched.into_iter().map(|part| part.bytes));
        }
    }
    Ok(join(parts))
}

/// Sorts ranges, and joins those that touch.
fn join(mut parts: Vec<Range<u64>>) -> Vec<Range<u64>> {
    parts.retain(|part| !part.is_empty());
    parts.sort_unstable_by_key(|part| part.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for part in parts {
        match joined.last_mut() {
            Some(last) if part.start <= last.end => last.end = last.end.max(part.end),
            _ => joined.push(part),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Datasets;

    /// Each step of 4 MiB looked up the whole file of each source.
    #[test]
    fn an_update_looks_each_source_up_once() {
        const PLACE_COUNT: u64 = 24;
        const APART_BYTES: u64 = 12 << 20;
        let declaration = format!(
            "dataset {{ const N = {} / 16\n var data [N]struct {{ a, b float32; c float64 }} }}\n\
             view rows {{ var data = data }}\n\
             view fields {{ var a [] {{ a }} = data; var b [] {{ b }} = data; var c [] {{ c }} = data }}\n\
             replica rows {{ view rows }}\nreplica fields {{ view fields }}\n",
            PLACE_COUNT * APART_BYTES
        );
        let dir = tempfile::tempdir().expect("a folder");
        let text =
            format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\n", dir.path().join("d").display());
        let config = terrace::Config::parse(&text, "test").expect("a configuration");
        let store = Store::init(&dir.path().join("store"), &config).expect("a store");
        let dataset = Datasets::new(&store).add("long", &declaration).expect("a dataset");
        let rows = dataset.view("rows").expect("a view");
        let written = |place: u64| (0..4096u64).flat_map(|n| (n * 7 + place).to_le_bytes()).collect::<Vec<u8>>();
        for place in 0..PLACE_COUNT {
            rows.write_at(place * APART_BYTES, &written(place)).expect("writes");
        }
        for lost in ["fields", "rows"] {
            store.remove(format!("datasets/long/{lost}").as_bytes()).expect("removes");
            let mut known = KnownParts::default();
            dataset.shared.update_replicas_from(&mut known, &mut |_| true, false).expect("updates");
            // In many steps.
            let located = store.locate(format!("datasets/long/{lost}").as_bytes()).expect("a file");
            assert!(located.extents.len() as u64 >= PLACE_COUNT, "{} extents", located.extents.len());
            assert_eq!(known.lookup_count, 1, "files looked up to make {lost}");
        }
        let mut out = vec![0; 32 << 10];
        for place in 0..PLACE_COUNT {
            rows.read_at(place * APART_BYTES, &mut out).expect("reads");
            assert!(out == written(place), "place {place}");
        }
        assert!(dataset.replicas().expect("replicas").iter().all(|(_, _, lacks)| !lacks));
    }
}
