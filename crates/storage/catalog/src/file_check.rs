//! Checks LMDB's data file before LMDB maps it. A page that the map has and the file lacks ends the process (SIGBUS). A page with
//! damaged bounds, which LMDB does not check, may end it, too.
//!
//! This module opens `data.mdb` beside LMDB. That is safe: LMDB takes its `fcntl` locks on `lock.mdb` alone, so closing a
//! descriptor of `data.mdb` drops none of them. `lock.mdb` is never opened here.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use terrace_system::open_regular;

use crate::{Error, Result};

const META_PAGES: u64 = 2;
const PAGE_HEADER_BYTES: usize = 16;
const META_BYTES: usize = 136;
const NODE_HEADER_BYTES: usize = 8;
const LMDB_MAGIC: u32 = 0xBEEF_C0DE;
const LMDB_DATA_VERSION: u32 = 1;
const BRANCH_FLAG: u16 = 1;
const LEAF_FLAG: u16 = 2;
const META_FLAG: u16 = 8;
/// The flags for the kind of a page. A page of a tree is either a branch or a leaf.
const PAGE_KIND_FLAGS: u16 = 0x6f;
const OVERFLOW_NODE_FLAG: u16 = 1;
const EMPTY_TREE_ROOT: u64 = u64::MAX;

/// How much of a data file is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckDepth {
    /// Its length. If it is shorter than its meta page says, also every page.
    Length,
    /// Every page that its trees reach. This reads the whole file.
    Pages,
}

/// Refuses a data file that lacks pages, although LMDB would accept it, and one with meta pages that LMDB cannot use.
pub fn check_data_file(path: &Path, map_bytes: usize, depth: CheckDepth) -> Result<()> {
    let context = || format!("checking {}", path.display());
    let file = open_regular(path).map_err(Error::io(context()))?;
    loop {
        let before = read_metas(&file).map_err(Error::io(context()))?;
        let found = find_fault(&file, &before, map_bytes, depth).map_err(Error::io(context()))?;
        let Err(reason) = found else { return Ok(()) };
        // No lock keeps writers away: another process may have committed, and reused pages that were free before. Then the meta
        // pages have changed, and the check is repeated.
        if read_metas(&file).map_err(Error::io(context()))? == before {
            return Err(Error::Damaged { what: format!("the catalog's file {}", path.display()), reason });
        }
    }
}

/// The bytes of both meta pages.
#[derive(PartialEq)]
struct RawMetas {
    first: Vec<u8>,
    second: Vec<u8>,
}

/// The content of a meta page.
struct Meta {
    page_bytes: u64,
    /// Roots of the tree of free pages and of the tree of records.
    roots: [u64; 2],
    last_page: u64,
    transaction: u64,
    /// The number of pages of the tree of records, including those of long values.
    record_pages: u64,
}

fn read_metas(file: &File) -> io::Result<RawMetas> {
    let first = read_at_most(file, 0, PAGE_HEADER_BYTES + META_BYTES)?;
    let second = match parse_meta(&first) {
        Some(meta) => read_at_most(file, meta.page_bytes, PAGE_HEADER_BYTES + META_BYTES)?,
        None => Vec::new(),
    };
    Ok(RawMetas { first, second })
}

fn parse_meta(page: &[u8]) -> Option<Meta> {
    let meta = page.get(PAGE_HEADER_BYTES..PAGE_HEADER_BYTES + META_BYTES)?;
    let known =
        u16_at(page, 10)? & META_FLAG != 0 && u32_at(meta, 0)? == LMDB_MAGIC && u32_at(meta, 4)? == LMDB_DATA_VERSION;
    let page_bytes = u64::from(u32_at(meta, 24)?);
    if !known || !page_bytes.is_power_of_two() || !(512..=65_536).contains(&page_bytes) {
        return None;
    }
    Some(Meta {
        page_bytes,
        roots: [u64_at(meta, 64)?, u64_at(meta, 112)?],
        last_page: u64_at(meta, 120)?,
        transaction: u64_at(meta, 128)?,
        record_pages: [80, 88, 96].into_iter().try_fold(META_PAGES, |sum, at| sum.checked_add(u64_at(meta, at)?))?,
    })
}

/// Measures a data file: all of its bytes, and the bytes of its pages with records.
pub fn measure_data_file(path: &Path) -> io::Result<(u64, u64)> {
    let file = open_regular(path)?;
    let metas = read_metas(&file)?;
    let newest =
        [parse_meta(&metas.first), parse_meta(&metas.second)].into_iter().flatten().max_by_key(|m| m.transaction);
    let used = newest.map_or(0, |meta| meta.record_pages.saturating_mul(meta.page_bytes));
    Ok((file.metadata()?.len(), used))
}

/// Describes the first fault of the file. `Ok` if it has none.
fn find_fault(file: &File, raw: &RawMetas, map_bytes: usize, depth: CheckDepth) -> io::Result<Result<(), String>> {
    let length = file.metadata()?.len();
    let (Some(first), Some(second)) = (parse_meta(&raw.first), parse_meta(&raw.second)) else {
        return Ok(Err(format!("it has {length} bytes and lacks one of its two meta pages, or one is not LMDB's")));
    };
    if first.page_bytes != second.page_bytes {
        return Ok(Err("its meta pages differ in the size of a page".into()));
    }
    let meta = if second.transaction > first.transaction { second } else { first };
    let pages = length / meta.page_bytes;
    if meta.last_page >= map_bytes as u64 / meta.page_bytes {
        return Ok(Err(format!("its meta page names {} as the last page", meta.last_page)));
    }
    if meta.roots.iter().any(|root| *root != EMPTY_TREE_ROOT && *root > meta.last_page) {
        return Ok(Err("its meta page names a root behind the last page".into()));
    }
    // LMDB does not write free pages at the end of the file: a shorter file may be whole.
    let is_long_enough = pages > meta.last_page;
    if is_long_enough && depth == CheckDepth::Length || TreeWalk::new(file, &meta, pages).check_all()? {
        return Ok(Ok(()));
    }
    if is_long_enough {
        return Ok(Err("a page of it is damaged".into()));
    }
    let named = (meta.last_page + 1).saturating_mul(meta.page_bytes);
    Ok(Err(format!("it was cut: it has {length} bytes, of {named} that its meta page names")))
}

/// A walk over all pages that the two trees reach.
struct TreeWalk<'a> {
    file: &'a File,
    page_bytes: u64,
    /// Whole pages in the file.
    pages: u64,
    to_visit: Vec<u64>,
}

impl<'a> TreeWalk<'a> {
    fn new(file: &'a File, meta: &Meta, pages: u64) -> Self {
        let to_visit = meta.roots.into_iter().filter(|root| *root != EMPTY_TREE_ROOT).collect();
        TreeWalk { file, page_bytes: meta.page_bytes, pages, to_visit }
    }

    /// Returns whether the file has every page that the trees reach.
    fn check_all(mut self) -> io::Result<bool> {
        let mut visited = 0;
        while let Some(number) = self.to_visit.pop() {
            visited += 1;
            // A tree with more pages than the file has a cycle.
            if !self.has_pages(number, 1) || visited > self.pages {
                return Ok(false);
            }
            let page = read_at_most(self.file, number * self.page_bytes, self.page_bytes as usize)?;
            if self.follow(number, &page).is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn has_pages(&self, number: u64, count: u64) -> bool {
        number >= META_PAGES && number.checked_add(count).is_some_and(|end| end <= self.pages)
    }

    /// Notes the pages that this one refers to. `None` if it is not a page of a tree, or refers to missing pages.
    fn follow(&mut self, number: u64, page: &[u8]) -> Option<()> {
        let flags = u16_at(page, 10)?;
        let is_branch = flags & BRANCH_FLAG != 0;
        if u64_at(page, 0)? != number || !matches!(flags & PAGE_KIND_FLAGS, BRANCH_FLAG | LEAF_FLAG) {
            return None;
        }
        let (lower, upper) = (usize::from(u16_at(page, 12)?), usize::from(u16_at(page, 14)?));
        let nodes = lower.checked_sub(PAGE_HEADER_BYTES)? / 2;
        if lower > upper || upper > page.len() || is_branch && nodes == 0 {
            return None;
        }
        for node in 0..nodes {
            let at = usize::from(u16_at(page, PAGE_HEADER_BYTES + 2 * node)?);
            let size = u32_at(page, at)?;
            let node_flags = u16_at(page, at + 4)?;
            let key_bytes = usize::from(u16_at(page, at + 6)?);
            let is_long = !is_branch && node_flags & OVERFLOW_NODE_FLAG != 0;
            let value_bytes = if is_branch {
                0
            } else if is_long {
                size_of::<u64>()
            } else {
                size as usize
            };
            let end = (at + NODE_HEADER_BYTES + key_bytes).checked_add(value_bytes)?;
            if at < upper || end > page.len() || !is_branch && node_flags & !OVERFLOW_NODE_FLAG != 0 {
                return None;
            }
            if is_branch {
                self.to_visit.push(u64::from(size) | u64::from(node_flags) << 32);
            } else if is_long {
                let first = u64_at(page, at + NODE_HEADER_BYTES + key_bytes)?;
                let count = (u64::from(size) + PAGE_HEADER_BYTES as u64 - 1) / self.page_bytes + 1;
                if !self.has_pages(first, count) {
                    return None;
                }
            }
        }
        Some(())
    }
}

fn read_at_most(file: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

// LMDB's numbers have the byte order of the machine.
fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use heed::types::Bytes;
    use heed::{Database, Env, EnvFlags, EnvOpenOptions, WithoutTls};
    use proptest::prelude::*;

    use super::*;

    const MAP_BYTES: usize = 1 << 24;

    type Model = BTreeMap<Vec<u8>, Vec<u8>>;

    #[allow(unsafe_code)]
    fn open(folder: &Path) -> (Env<WithoutTls>, Database<Bytes, Bytes>) {
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        // SAFETY: nothing else has this test's folder open.
        let env = unsafe { options.map_size(MAP_BYTES).flags(EnvFlags::NO_SYNC).open(folder) }.expect("opens");
        let mut txn = env.write_txn().expect("a transaction");
        let records = env.create_database(&mut txn, None).expect("a database");
        txn.commit().expect("commits");
        (env, records)
    }

    fn read_all(folder: &Path) -> Model {
        let (env, records) = open(folder);
        let txn = env.read_txn().expect("a transaction");
        let all = records.iter(&txn).expect("reads").map_while(|record| record.ok());
        all.map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
    }

    /// Transactions of some writes each: a key's number, and a value's length (none: the key is deleted).
    fn transactions() -> impl Strategy<Value = Vec<Vec<(u8, Option<usize>)>>> {
        let write = (0..16_u8, prop::option::weighted(0.7, prop_oneof![1..200_usize, 2000..20_000_usize]));
        prop::collection::vec(prop::collection::vec(write, 1..24), 1..12)
    }

    /// Makes a data file of a few hundred records, some of them long, and returns its bytes.
    fn filled(folder: &Path) -> Vec<u8> {
        let (env, records) = open(folder);
        let mut txn = env.write_txn().expect("a transaction");
        for n in 0..300_u32 {
            records.put(&mut txn, &n.to_be_bytes().repeat(20), &vec![n as u8; n as usize * 20]).expect("writes");
        }
        txn.commit().expect("commits");
        env.prepare_for_closing().wait();
        fs::read(folder.join("data.mdb")).expect("reads")
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Four damaged bytes in a page's header ended `terrace rebuild` with SIGBUS: LMDB goes where a page's bounds lead. The
        /// tests had only cut files. LMDB reads what the check accepts here; it would take the test down.
        #[test]
        fn a_page_that_lmdb_could_not_follow_is_refused(
            page in 0.0..1.0_f64, at in prop_oneof![0..40_usize, 0..4096_usize], noise in prop::collection::vec(any::<u8>(), 1..64),
        ) {
            let folder = tempfile::tempdir().expect("a folder");
            let mut bytes = filled(folder.path());
            let start = ((page * (bytes.len() / 4096) as f64) as usize * 4096 + at).min(bytes.len() - noise.len());
            bytes[start..start + noise.len()].copy_from_slice(&noise);
            let path = folder.path().join("data.mdb");
            fs::write(&path, bytes).expect("writes");
            if check_data_file(&path, MAP_BYTES, CheckDepth::Pages).is_ok() {
                read_all(folder.path());
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        /// LMDB does not write free pages at the end of its file, so a whole file may be shorter than its meta page says. The
        /// check must accept such a file, and must refuse each cut that removes a needed page. The test reads each accepted
        /// file with noise in place of the removed bytes.
        #[test]
        fn a_cut_is_accepted_where_nothing_needed_is_cut(transactions in transactions()) {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("data.mdb");
            let mut model = Model::new();
            for writes in transactions {
                let (env, records) = open(folder.path());
                let mut txn = env.write_txn().expect("a transaction");
                for (key, length) in writes {
                    let key = vec![key; 300];
                    if let Some(length) = length {
                        let value = vec![length as u8; length];
                        records.put(&mut txn, &key, &value).expect("writes");
                        model.insert(key, value);
                    } else {
                        records.delete(&mut txn, &key).expect("deletes");
                        model.remove(&key);
                    }
                }
                txn.commit().expect("commits");
                env.prepare_for_closing().wait();
                check_data_file(&path, MAP_BYTES, CheckDepth::Pages).expect("LMDB's own file is whole");
            }
            let whole = fs::read(&path).expect("reads");
            let mut accepted = whole.len();
            let file = File::options().write(true).open(&path).expect("opens");
            for cut in (0..whole.len()).rev().step_by(1000) {
                file.set_len(cut as u64).expect("cuts");
                match check_data_file(&path, MAP_BYTES, CheckDepth::Length) {
                    Ok(()) => accepted = cut,
                    Err(error) => {
                        let words = error.to_string();
                        prop_assert!(words.contains("`terrace rebuild`"), "{}", words);
                    }
                }
            }
            let mut noisy = whole[..accepted].to_vec();
            noisy.resize(whole.len(), 0xA7);
            fs::write(&path, noisy).expect("writes");
            prop_assert!(read_all(folder.path()) == model, "cut to {} of {} bytes", accepted, whole.len());
        }
    }
}
