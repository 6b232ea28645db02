//! The map: a table with a row for each number.

use std::fs;
use std::io;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension, params};
use terrace::tier::{Capabilities, FrameMap, TargetSettings};

use crate::database::{connect, create_tables, page_size, read_marker, system_error};

/// A SQLite file.
pub struct SqliteMap(Connection);

impl SqliteMap {
    fn delete_rows(&self, numbers: &mut dyn Iterator<Item = u64>) -> rusqlite::Result<()> {
        let transaction = self.0.unchecked_transaction()?;
        for number in numbers {
            transaction.execute("DELETE FROM frames WHERE number = ?1", [number as i64])?;
        }
        transaction.commit()
    }

    fn read_heads(&self, length: usize) -> rusqlite::Result<Vec<(u64, Vec<u8>)>> {
        let mut select = self.0.prepare("SELECT number, substr(bytes, 1, ?1) FROM frames")?;
        let rows = select.query_map([length as i64], |row| Ok((row.get::<_, i64>(0)? as u64, row.get(1)?)))?;
        rows.collect()
    }
}

impl FrameMap for SqliteMap {
    fn capabilities() -> Capabilities {
        Capabilities { local_path: true, ..Capabilities::default() }
    }

    fn check(settings: &TargetSettings) -> Result<(), String> {
        if settings.service.is_some() {
            return Err("a SQLite file needs no service; leave it out".into());
        }
        if let Some(unknown) = settings.options.keys().find(|option| *option != "page_size") {
            return Err(format!("unknown option {unknown:?}; there is page_size"));
        }
        page_size(settings).map(drop)
    }

    fn prepare(settings: &TargetSettings) -> io::Result<()> {
        fs::create_dir_all(settings.path.parent().unwrap_or(Path::new("/")))
    }

    fn open(settings: &TargetSettings, may_make: bool) -> io::Result<Option<SqliteMap>> {
        if !may_make && !settings.path.try_exists()? {
            return Ok(None);
        }
        connect(settings, may_make).map(|connection| Some(SqliteMap(connection))).map_err(system_error)
    }

    // SQLite would go on writing to a file that was deleted.
    fn is_there(&self, settings: &TargetSettings) -> io::Result<bool> {
        settings.path.try_exists()
    }

    fn marker(&self) -> io::Result<Option<String>> {
        read_marker(&self.0).map_err(system_error)
    }

    fn make_marker(&self, marker: &str) -> io::Result<String> {
        create_tables(&self.0, marker).map_err(system_error)
    }

    fn put(&self, number: u64, bytes: &[u8]) -> io::Result<()> {
        self.0
            .execute("INSERT INTO frames VALUES (?1, ?2)", params![number as i64, bytes])
            .map(drop)
            .map_err(system_error)
    }

    fn read(&self, number: u64, skip: u64, out: &mut [u8]) -> io::Result<()> {
        let part = "SELECT substr(bytes, ?2, ?3) FROM frames WHERE number = ?1";
        let range = params![number as i64, skip as i64 + 1, out.len() as i64];
        let bytes = self.0.query_row(part, range, |row| row.get::<_, Vec<u8>>(0)).optional().map_err(system_error)?;
        let bytes = bytes.ok_or(io::ErrorKind::NotFound)?;
        if bytes.len() < out.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        out.copy_from_slice(&bytes);
        Ok(())
    }

    fn delete(&self, numbers: &mut dyn Iterator<Item = u64>) -> io::Result<()> {
        self.delete_rows(numbers).map_err(system_error)
    }

    // Each statement was durable when it returned.
    fn sync(&self, _numbers: &[u64]) -> io::Result<()> {
        Ok(())
    }

    fn heads(&self, length: usize) -> io::Result<Vec<(u64, Vec<u8>)>> {
        self.read_heads(length).map_err(system_error)
    }

    // SQLite takes lengths from the rows' headers, and reads no bytes.
    fn count_bytes(&self) -> io::Result<u64> {
        let sum = "SELECT coalesce(sum(length(bytes)), 0) FROM frames";
        self.0.query_row(sum, [], |row| row.get::<_, i64>(0)).map(|bytes| bytes as u64).map_err(system_error)
    }

    // Frames and marker are one file. `marker` has rolled back the journal of a writer that was killed, so none is left.
    fn remove(settings: &TargetSettings) -> io::Result<()> {
        fs::remove_file(&settings.path)
    }
}
