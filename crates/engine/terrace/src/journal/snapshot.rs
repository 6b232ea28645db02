//! Snapshots of the catalog, which limit the length of the log and the time of a rebuild.

use std::fs::{self, File};

use terrace_catalog::log;

use super::Journal;
use crate::{Error, Result};

impl Journal {
    /// Makes a snapshot if the log has filled a file since the last one, and deletes the log before it. Only the holder of the
    /// mover's lock may call this.
    pub fn snapshot_if_due(&self) -> Result<()> {
        if self.catalog.is_shared() {
            // Its node offers them to others.
            return Ok(());
        }
        self.catalog.log().fit_to(self.catalog.used_bytes()?);
        if self.catalog.log().files()?.len() > 1 { self.snapshot() } else { Ok(()) }
    }

    fn snapshot(&self) -> Result<()> {
        let log = self.catalog.log();
        let folder = log.folder();
        let new = folder.join("new");
        let (tail, synced) = self.catalog.write_snapshot(&new)?;
        self.mark_synced()?;
        // A rebuild starts from the snapshot, so it must not name bytes that a power cut can still take. A mark names no bytes.
        let is_mark = synced > 0 && tail.sequence == synced + 1;
        if self.catalog.synced()? < tail.sequence && !is_mark {
            return Ok(());
        }
        terrace_system::fail::point("snapshot:written");
        let context = || format!("naming a snapshot in {}", folder.display());
        fs::rename(&new, log::snapshot(folder, tail.sequence)).map_err(Error::io(context()))?;
        // The name must be durable before `trim` deletes the log that the snapshot replaces.
        File::open(folder).and_then(|f| f.sync_all()).map_err(Error::io(context()))?;
        tracing::debug!(sequence = tail.sequence, "snapshot");
        terrace_system::fail::point("snapshot:named");
        self.copy_log(true)?;
        // Before the files that it replaces are gone: a copy that lacks some of their pieces begins again with the snapshot.
        self.copy_to_services();
        log.trim(folder, tail.file).map_err(Error::io(format!("trimming {}", folder.display())))?;
        terrace_system::fail::point("snapshot:trimmed");
        for copy in self.log_copies() {
            if log::snapshot(&copy.path.join("log"), tail.sequence).exists()
                && let Err(e) = log.trim(&copy.path.join("log"), tail.file)
            {
                copy.failed(&e);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::{Ack, PutOptions, Store};
    use terrace_catalog::log;

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
        engine.journal.snapshot().expect("a snapshot, or none");
        assert_eq!(engine.catalog.synced().expect("a mark"), before - 1, "the mark lies just before what is in memory");
        let made = log::snapshots(engine.catalog.log().folder()).expect("snapshots");
        assert!(made.iter().all(|sequence| *sequence < before), "{made:?} with {before} in memory only");
    }
}
