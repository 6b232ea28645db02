//! The map: a table with a row for each number.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use rusqlite::ffi::SQLITE_READONLY_DBMOVED;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, TransactionBehavior, params};
use terrace::tier::{Capabilities, FrameMap, TargetSettings};

/// The longest wait for another process that is writing.
const MAX_BUSY_WAIT: Duration = Duration::from_secs(30);
/// The page sizes that SQLite takes, in bytes.
const PAGE_SIZES: std::ops::RangeInclusive<u32> = 512..=65_536;
const DEFAULT_PAGE_SIZE: u32 = 4096;

const CREATE_TABLES: &str = "CREATE TABLE terrace_target (mark TEXT NOT NULL);
    CREATE TABLE frames (number INTEGER PRIMARY KEY, bytes BLOB NOT NULL);";

/// A SQLite file.
pub struct SqliteMap(Connection);

/// Returns SQLite's error as one of the system's, which the store acts on.
fn system(error: rusqlite::Error) -> io::Error {
    // SQLite calls a file read-only that is no longer at its path.
    let was_moved = matches!(error.sqlite_error(), Some(error) if error.extended_code == SQLITE_READONLY_DBMOVED);
    let kind = match error.sqlite_error_code() {
        _ if was_moved => io::ErrorKind::NotConnected,
        Some(ErrorCode::DiskFull) => io::ErrorKind::StorageFull,
        Some(ErrorCode::ReadOnly) => io::ErrorKind::ReadOnlyFilesystem,
        Some(ErrorCode::CannotOpen) => io::ErrorKind::NotConnected,
        Some(ErrorCode::DatabaseBusy) => io::ErrorKind::TimedOut,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

/// Returns the option `page_size`.
fn page_size(settings: &TargetSettings) -> Result<u32, String> {
    let Some(text) = settings.options.get("page_size") else { return Ok(DEFAULT_PAGE_SIZE) };
    let size = text.parse().ok().filter(|size: &u32| PAGE_SIZES.contains(size) && size.is_power_of_two());
    size.ok_or_else(|| format!("option page_size: {text:?} is no power of two from 512 to 65536"))
}

/// Returns the marker, if the file has one.
fn read_marker(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let tables = "SELECT count(*) FROM sqlite_master WHERE name = 'terrace_target'";
    match connection.query_row(tables, [], |row| row.get::<_, i64>(0))? {
        0 => Ok(None),
        _ => connection.query_row("SELECT mark FROM terrace_target", [], |row| row.get(0)).optional(),
    }
}

impl SqliteMap {
    /// Connects to a file. SQLite's default rollback journal makes each statement durable when it returns.
    fn connect(settings: &TargetSettings, may_make: bool) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let flags = if may_make { flags | OpenFlags::SQLITE_OPEN_CREATE } else { flags };
        let connection = Connection::open_with_flags(&settings.path, flags)?;
        connection.busy_timeout(MAX_BUSY_WAIT)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        if may_make {
            // Takes effect before the first table is created. `check` has refused a wrong size.
            connection.pragma_update(None, "page_size", page_size(settings).unwrap_or(DEFAULT_PAGE_SIZE))?;
        }
        Ok(connection)
    }

    fn create_tables(&self, marker: &str) -> rusqlite::Result<String> {
        // The write lock is taken at once, so that only one of two processes finds no marker.
        let transaction = Transaction::new_unchecked(&self.0, TransactionBehavior::Immediate)?;
        if let Some(marker) = read_marker(&transaction)? {
            return Ok(marker);
        }
        transaction.execute_batch(CREATE_TABLES)?;
        transaction.execute("INSERT INTO terrace_target VALUES (?1)", [marker])?;
        transaction.commit()?;
        Ok(marker.to_owned())
    }

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
        SqliteMap::connect(settings, may_make).map(|connection| Some(SqliteMap(connection))).map_err(system)
    }

    // SQLite would go on writing to a file that was deleted.
    fn is_there(&self, settings: &TargetSettings) -> io::Result<bool> {
        settings.path.try_exists()
    }

    fn marker(&self) -> io::Result<Option<String>> {
        read_marker(&self.0).map_err(system)
    }

    fn make_marker(&self, marker: &str) -> io::Result<String> {
        self.create_tables(marker).map_err(system)
    }

    fn put(&self, number: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.execute("INSERT INTO frames VALUES (?1, ?2)", params![number as i64, bytes]).map(drop).map_err(system)
    }

    fn read(&self, number: u64, skip: u64, out: &mut [u8]) -> io::Result<()> {
        let part = "SELECT substr(bytes, ?2, ?3) FROM frames WHERE number = ?1";
        let range = params![number as i64, skip as i64 + 1, out.len() as i64];
        let bytes = self.0.query_row(part, range, |row| row.get::<_, Vec<u8>>(0)).optional().map_err(system)?;
        let bytes = bytes.ok_or(io::ErrorKind::NotFound)?;
        if bytes.len() < out.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        out.copy_from_slice(&bytes);
        Ok(())
    }

    fn delete(&self, numbers: &mut dyn Iterator<Item = u64>) -> io::Result<()> {
        self.delete_rows(numbers).map_err(system)
    }

    // Each statement was durable when it returned.
    fn sync(&self, _numbers: &[u64]) -> io::Result<()> {
        Ok(())
    }

    fn heads(&self, length: usize) -> io::Result<Vec<(u64, Vec<u8>)>> {
        self.read_heads(length).map_err(system)
    }

    // SQLite takes lengths from the rows' headers, and reads no bytes.
    fn count_bytes(&self) -> io::Result<u64> {
        let sum = "SELECT coalesce(sum(length(bytes)), 0) FROM frames";
        self.0.query_row(sum, [], |row| row.get::<_, i64>(0)).map(|bytes| bytes as u64).map_err(system)
    }

    // Frames and marker are one file. `marker` has rolled back the journal of a writer that was killed, so none is left.
    fn remove(settings: &TargetSettings) -> io::Result<()> {
        fs::remove_file(&settings.path)
    }
}
