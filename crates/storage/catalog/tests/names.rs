//! Names in key spaces, against a slow and obvious oracle.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use terrace_catalog::log::Log;
use terrace_catalog::{Attributes, Catalog, Change, Edit, Expect, Kind, NameListing, NamePage, Voids};
use terrace_format::key::{KeyRule, KeySpace, MAX_KEY};

fn open(dir: &Path, name: &str) -> Catalog {
    let log = Log::open(&dir.join("log"), 7).unwrap();
    Catalog::open(&dir.join(name), log).unwrap()
}

fn put(catalog: &Catalog, key: &[u8], attributes: Attributes) -> Edit {
    let object = catalog.next_id().unwrap();
    Edit::Put { key: key.to_vec(), object, length: 0, want: 1, attributes, staged: false, extents: Vec::new() }
}

/// Puts an empty object, unless a file is in the way.
fn try_put(catalog: &Catalog, key: &[u8], attributes: Attributes) -> bool {
    let edits = vec![put(catalog, key, attributes)];
    catalog.commit(Change { expect: vec![Expect::Free(key.to_vec())], edits }).is_ok()
}

fn expiring(time: Option<u64>) -> Attributes {
    let mut attributes = Attributes::default();
    attributes.set_expiry(time);
    attributes
}

/// A name or a common prefix.
type Entry = (Vec<u8>, bool);

/// The whole listing, by looking at each name.
fn list_all(names: &BTreeSet<Vec<u8>>, listing: &NameListing<'_>) -> BTreeSet<Entry> {
    let behind = |name: &[u8]| -> Option<usize> {
        let mut places = listing.prefix.len()..name.len();
        let at = places.find(|at| !listing.delimiter.is_empty() && name[*at..].starts_with(listing.delimiter))?;
        Some(at + listing.delimiter.len())
    };
    let entry = |name: &Vec<u8>| behind(name).map_or_else(|| (name.clone(), false), |end| (name[..end].to_vec(), true));
    let listed = names.iter().filter(|name| name.starts_with(listing.prefix)).map(entry);
    listed.filter(|(entry, _)| listing.after.is_none_or(|after| entry.as_slice() > after)).collect()
}

fn entries(page: &NamePage) -> Vec<Entry> {
    let names = page.names.iter().map(|(name, _)| (name.clone(), false));
    let mut all: Vec<Entry> = names.chain(page.common_prefixes.iter().map(|name| (name.clone(), true))).collect();
    all.sort();
    all
}

fn name(longest: usize) -> impl Strategy<Value = Vec<u8>> {
    let special = prop::sample::select(b"\0\x01\x02./0aab\xff".to_vec());
    prop::collection::vec(special, 0..longest)
}

#[test]
fn pages_of_names_are_those_of_a_walk_over_all_names() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = open(dir.path(), "catalog");
    let cases = (
        prop::collection::vec(name(6), 0..40),
        prop::collection::vec((name(3), name(3), prop::option::of(name(4)), 0usize..6), 1..8),
        any::<bool>(),
    );
    let config = ProptestConfig { cases: 100, ..ProptestConfig::default() };
    let run = TestRunner::new(config).run(&cases, |(names, listings, is_flat)| {
        let folder = format!("s{}/b", catalog.next_id().unwrap());
        let rule = if is_flat { KeyRule::Flat } else { KeyRule::Paths };
        let space = KeySpace::new(folder.as_bytes(), rule).unwrap();
        let other = KeySpace::new(format!("{folder}c").as_bytes(), rule).unwrap();
        let mut listed = BTreeSet::new();
        for (number, name) in names.iter().enumerate() {
            let attributes = match number % 7 {
                // Directories, expired objects and neighbours are not listed.
                5 => Attributes { kind: Kind::Directory, ..Attributes::default() },
                6 => expiring(Some(100)),
                _ => expiring(Some(101)),
            };
            let Ok(key) = space.key(name) else { continue };
            if try_put(&catalog, &key, attributes) {
                match number % 7 {
                    5 | 6 => listed.remove(name),
                    _ => listed.insert(name.clone()),
                };
            }
            let beside = other.key(name).unwrap_or_default();
            try_put(&catalog, &beside, Attributes::default());
        }
        // A key that no flat name has.
        try_put(&catalog, &[folder.as_bytes(), b"/plain"].concat(), expiring(Some(if is_flat { 101 } else { 1 })));
        for (prefix, delimiter, after, limit) in &listings {
            let listing = NameListing { prefix, delimiter, after: after.as_deref(), limit: *limit };
            let all = list_all(&listed, &listing);
            let page = catalog.list_names(&space, &listing, 100).unwrap();
            let expected: Vec<Entry> = all.iter().take(*limit).cloned().collect();
            prop_assert_eq!(entries(&page), expected, "{:?} of {:?}", listing, listed);
            prop_assert_eq!(page.next.is_some(), *limit > 0 && all.len() > *limit);
            // All pages together are the whole.
            let (mut found, mut after) = (Vec::new(), after.clone());
            for _ in 0..=all.len() {
                let listing = NameListing { after: after.as_deref(), limit: (*limit).max(1), ..listing };
                let page = catalog.list_names(&space, &listing, 100).unwrap();
                found.extend(entries(&page));
                match page.next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
            prop_assert_eq!(found, all.into_iter().collect::<Vec<_>>());
        }
        Ok(())
    });
    run.unwrap();
}

#[test]
fn names_below_a_common_prefix_are_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = open(dir.path(), "catalog");
    let space = KeySpace::new(b"b", KeyRule::Flat).unwrap();
    let key = |name: String| space.key(name.as_bytes()).unwrap();
    let changes: Vec<Change> =
        (0..3000).map(|n| put(&catalog, &key(format!("{}/{n:05}", n / 1000)), Attributes::default()).into()).collect();
    assert!(catalog.commit_many(&changes).unwrap().iter().all(Result::is_ok));
    let listing = NameListing { delimiter: b"/", limit: 1000, ..NameListing::default() };
    let page = catalog.list_names(&space, &listing, 0).unwrap();
    assert_eq!((page.common_prefixes.len(), page.names.len(), page.records_read), (3, 0, 3));
    let page = catalog.list_names(&space, &NameListing { prefix: b"1/", limit: 10, ..listing }, 0).unwrap();
    assert_eq!((page.names.len(), page.records_read, page.next), (10, 11, Some(b"1/01009".to_vec())));
    let page = catalog.list_names(&space, &NameListing { after: Some(b"1/01500"), ..listing }, 0).unwrap();
    assert_eq!((page.common_prefixes, page.records_read), (vec![b"2/".to_vec()], 1));
}

#[test]
fn the_longest_keys_fit_into_each_kind_of_record() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = open(dir.path(), "catalog");
    let long = |last: u8| [vec![b'k'; MAX_KEY - 1], vec![last]].concat();
    for last in 0..20 {
        assert!(try_put(&catalog, &long(b'a' + last), expiring(Some(u64::from(last)))));
    }
    let rename = Edit::Rename { from: long(b'a'), to: long(b'z') };
    catalog.commit(rename.into()).unwrap();
    let expired = catalog.expired(u64::MAX, 100).unwrap();
    assert_eq!((expired.len(), &expired[0].0, &expired[1].0), (20, &long(b'z'), &long(b'b')));
    let again = open(dir.path(), "again");
    again.replay(&Voids::new(), |_, _, _| {}).unwrap();
    assert!(again.dump().unwrap() == catalog.dump().unwrap());
}
