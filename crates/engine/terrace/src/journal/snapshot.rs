//! Snapshots of the catalog, which limit the length of the log and the time of a rebuild.

use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::Ordering;

use terrace_catalog::log;

use super::Journal;
use crate::{Error, Result};

impl Journal {
    /// Makes a snapshot if it would replace enough of the log, and deletes the log before it. Only the holder of the mover's lock may
    /// call this.
    pub fn snapshot_if_due(&self) -> Result<()> {
        if self.catalog.is_shared() {
            // Its node offers them to others.
            return Ok(());
        }
        let log = self.catalog.log();
        log.fit_to(self.catalog.used_bytes()?);
        let unreplaced = log.unreplaced(&self.catalog.log_files()?)?;
        // Relaxed: only the holder of the mover's lock uses it.
        let in_vain = self.snapshot_in_vain.load(Ordering::Relaxed);
        let since = if in_vain > unreplaced.bytes { 0 } else { in_vain };
        if log.is_snapshot_due(unreplaced.bytes - since) {
            // While a commit has bytes in memory only, a snapshot cannot get its name. This round would write it in vain.
            // The tail is looked up first: others commit meanwhile.
            let tail = self.catalog.tail()?.sequence;
            return if self.last_lasting()? >= tail { self.snapshot(unreplaced.bytes) } else { Ok(()) };
        }
        if unreplaced.has_replaced
            && let Some(newest) = log::snapshots(log.folder()).map_err(Error::io(listing(log.folder())))?.pop()
        {
            // The process that made it was killed.
            self.replace_log(newest)?;
        }
        Ok(())
    }

    /// Makes a snapshot. Whole files of the log have `unreplaced_bytes`.
    fn snapshot(&self, unreplaced_bytes: u64) -> Result<()> {
        let log = self.catalog.log();
        let folder = log.folder();
        let new = folder.join("new");
        let (tail, synced) = self.catalog.write_snapshot(&new)?;
        self.mark_synced()?;
        // A rebuild starts from the snapshot, so it must not name bytes that a power cut can still take. A mark names no bytes.
        let is_mark = synced > 0 && tail.sequence == synced + 1;
        if self.catalog.synced()? < tail.sequence && !is_mark {
            // The next one waits until the log has grown by as much again.
            self.snapshot_in_vain.store(unreplaced_bytes, Ordering::Relaxed);
            return Ok(());
        }
        self.snapshot_in_vain.store(0, Ordering::Relaxed);
        terrace_system::fail::point("snapshot:written");
        let context = || format!("naming a snapshot in {}", folder.display());
        fs::rename(&new, log::snapshot(folder, tail.sequence)).map_err(Error::io(context()))?;
        // The name must be durable before `trim` deletes the log that the snapshot replaces.
        File::open(folder).and_then(|f| f.sync_all()).map_err(Error::io(context()))?;
        tracing::debug!(sequence = tail.sequence, "snapshot");
        terrace_system::fail::point("snapshot:named");
        self.replace_log(tail.sequence)
    }

    /// Copies the newest snapshot, which is as of this commit and durable, and deletes the files of the log that it replaces.
    fn replace_log(&self, sequence: u64) -> Result<()> {
        let log = self.catalog.log();
        let folder = log.folder();
        self.copy_log(true)?;
        // Before the files that it replaces are gone: a copy that lacks some of their pieces begins again with the snapshot.
        self.copy_to_services();
        // The file with the snapshot's commit stays: the next record follows from that one.
        let Some(file) = self.catalog.log_files()?.into_iter().rfind(|file| *file <= sequence) else { return Ok(()) };
        log.trim(folder, file).map_err(Error::io(format!("trimming {}", folder.display())))?;
        terrace_system::fail::point("snapshot:trimmed");
        for copy in self.log_copies() {
            if log::snapshot(&copy.path.join("log"), sequence).exists()
                && let Err(e) = log.trim(&copy.path.join("log"), file)
            {
                copy.failed(&e);
            }
        }
        Ok(())
    }
}

fn listing(folder: &Path) -> String {
    format!("listing {}", folder.display())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;

    use crate::config::Config;
    use crate::{Ack, PutOptions, Store};
    use terrace_catalog::{Attributes, Change, Edit, log};

    #[test]
    fn a_snapshot_names_nothing_that_is_in_memory_only() {
        let dir = tempfile::tempdir().expect("a folder");
        let d = dir.path().display();
        let text = format!(
            "[store]\nreplicas = {{ default = 2 }}\n\
             [[tier]]\nname = 'ram'\nkind = 'directory'\ntargets = ['{d}/ram']\npersistent = false\n\
             [[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{d}/disk']\n"
        );
        let store = Store::init(&dir.path().join("store"), &Config::parse(&text, "test").expect("a configuration"));
        let store = store.expect("a store");
        let engine = &store.engine;
        let put = |key: &[u8], ack| {
            let options = PutOptions { ack: Some(ack), ..PutOptions::default() };
            store.put_bytes(key, &[7; 600_000], &options).expect("puts")
        };
        put(b"first", Ack::Durable);
        store.sync().expect("syncs");
        // Nothing is made in the background now.
        let _lock = engine.locks.wait_for_mover().expect("the lock");
        put(b"second", Ack::Durable);
        put(b"in memory", Ack::Placed);
        let before = engine.catalog.tail().expect("a tail").sequence;
        engine.journal.snapshot(1).expect("a snapshot, or none");
        assert_eq!(engine.catalog.synced().expect("a mark"), before - 1, "the mark lies just before what is in memory");
        let made = log::snapshots(engine.catalog.log().folder()).expect("snapshots");
        assert!(made.iter().all(|sequence| *sequence < before), "{made:?} with {before} in memory only");
    }

    /// The bytes that snapshots and the log of a store have written.
    #[derive(Default)]
    struct Written {
        snapshot_count: u64,
        snapshot_bytes: u64,
        log_bytes: u64,
    }

    /// Changes objects of 3 KiB of attributes in turn, until the log has these bytes, and makes snapshots when they are due.
    fn change_objects(store: &Store, count: u64, bytes: u64, written: &mut Written) {
        let (journal, catalog) = (&store.engine.journal, &store.engine.catalog);
        let mut end = catalog.tail().expect("a tail");
        for round in 0u64.. {
            if written.log_bytes > bytes {
                break;
            }
            let user = BTreeMap::from([("kept".to_owned(), format!("{round:03072}"))]);
            let attributes = Attributes { user, ..Attributes::now() };
            let put = |number: u64| Edit::Put {
                key: format!("object {number}").into_bytes(),
                object: catalog.next_id().expect("an id"),
                length: 0,
                want: 1,
                attributes: attributes.clone(),
                staged: false,
                extents: Vec::new(),
            };
            let numbers = (round * 64..).take(64).map(|number| number % count);
            catalog.commit(Change { expect: Vec::new(), edits: numbers.map(put).collect() }).expect("commits");
            let folder = catalog.log().folder();
            let before = log::snapshots(folder).expect("snapshots");
            journal.snapshot_if_due().expect("a snapshot, or none");
            let tail = catalog.tail().expect("a tail");
            written.log_bytes += if tail.file == end.file { tail.position - end.position } else { tail.position };
            end = tail;
            for new in log::snapshots(folder).expect("snapshots").iter().filter(|made| !before.contains(made)) {
                written.snapshot_count += 1;
                written.snapshot_bytes += fs::metadata(log::snapshot(folder, *new)).expect("a snapshot").len();
            }
        }
    }

    /// Bytes of a store's log, and of its catalog.
    fn kept_bytes(store: &Store) -> (u64, u64) {
        let log = store.engine.catalog.log();
        let length = |file: u64| fs::metadata(log.path(file)).expect("a file of the log").len();
        (
            log.files().expect("files").into_iter().map(length).sum(),
            store.engine.catalog.used_bytes().expect("its size"),
        )
    }

    fn make_store(dir: &Path) -> Store {
        let text =
            format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\n", dir.join("disk").display());
        Store::init(&dir.join("store"), &Config::parse(&text, "test").expect("a configuration")).expect("a store")
    }

    /// A file of the log had at most 32 MiB, and a snapshot of the whole catalog was written for each: of a catalog of several GiB, a
    /// hundred times the bytes of the log.
    #[test]
    fn snapshots_write_at_most_half_as_much_as_the_log() {
        for (count, bytes) in [(200, 24 << 20), (12_000, 320 << 20)] {
            let dir = tempfile::tempdir().expect("a folder");
            let store = make_store(dir.path());
            // Nothing is made in the background now.
            let _lock = store.engine.locks.wait_for_mover().expect("the lock");
            let mut written = Written::default();
            change_objects(&store, count, bytes, &mut written);
            assert!(written.snapshot_count > 1, "{} snapshots of {count} objects", written.snapshot_count);
            let ratio = written.snapshot_bytes as f64 / written.log_bytes as f64;
            assert!(ratio <= 0.5, "{count} objects: {ratio:.2} bytes of snapshots for each byte of the log");
            // The log stays bounded: what a snapshot is due for, a file that is not full, and a file of slack.
            let (log_bytes, catalog_bytes) = kept_bytes(&store);
            let bound = (2 * catalog_bytes).max(4 << 20) + 2 * (4 * catalog_bytes).clamp(4 << 20, 32 << 20);
            assert!(log_bytes <= bound, "{count} objects: {log_bytes} bytes of log, {catalog_bytes} of catalog");
        }
    }

    /// A power cut came when a file of the log was new, and the log went on in the file before. The next snapshot took the new file for the
    /// one with its commit, and deleted the log.
    #[test]
    fn a_file_behind_the_end_of_the_log_is_not_taken_for_part_of_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let store = make_store(dir.path());
        let (journal, catalog) = (&store.engine.journal, &store.engine.catalog);
        let lock = store.engine.locks.wait_for_mover().expect("the lock");
        let put = |key: &[u8]| {
            let options = PutOptions { ack: Some(Ack::Durable), ..PutOptions::default() };
            store.put_bytes(key, &[7; 5000], &options).expect("puts");
        };
        put(b"before");
        let stale = catalog.log().path(catalog.tail().expect("a tail").sequence + 1);
        fs::write(&stale, b"").expect("writes");
        put(b"after");
        let end = catalog.tail().expect("a tail");
        assert!(!catalog.log().unreplaced(&catalog.log_files().expect("files")).expect("files").has_replaced);
        journal.snapshot(1).expect("a snapshot");
        assert!(catalog.log().holds_end(end).expect("reads"));
        // Once the log goes on in another file, it is in nobody's way.
        let mut written = Written::default();
        change_objects(&store, 200, 8 << 20, &mut written);
        assert!(written.snapshot_count > 0 && !stale.exists());
        drop(lock);
        store.close().expect("closes");
        let store = Store::open(&dir.path().join("store")).expect("opens");
        assert_eq!(store.get(b"after").expect("reads"), [7; 5000]);
    }

    /// A process was killed after its snapshot had its name. The next one deletes what the snapshot replaced.
    #[test]
    fn what_a_snapshot_replaced_is_deleted_later() {
        let dir = tempfile::tempdir().expect("a folder");
        let store = make_store(dir.path());
        let _lock = store.engine.locks.wait_for_mover().expect("the lock");
        let log = store.engine.catalog.log();
        let kept = dir.path().join("kept");
        let mut written = Written::default();
        while written.snapshot_count == 0 {
            if let Some(first) = log.files().expect("files").first() {
                fs::copy(log.path(*first), &kept).expect("copies");
            }
            let bytes = written.log_bytes + (1 << 20);
            change_objects(&store, 200, bytes, &mut written);
        }
        let first = log.files().expect("files")[0];
        let replaced = log.path(first - 1);
        fs::copy(&kept, &replaced).expect("copies");
        store.engine.journal.snapshot_if_due().expect("no snapshot");
        assert!(!replaced.exists());
        assert_eq!(log.files().expect("files"), [first]);
    }
}
