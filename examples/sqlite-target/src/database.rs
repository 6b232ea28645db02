//! SQLite itself: connections, tables, errors and the option `page_size`.

use std::io;
use std::time::Duration;

use rusqlite::ffi::SQLITE_READONLY_DBMOVED;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, TransactionBehavior};
use terrace::tier::TargetSettings;

/// The longest wait for another process that is writing.
const MAX_BUSY_WAIT: Duration = Duration::from_secs(30);
/// The page sizes that SQLite takes, in bytes.
const PAGE_SIZES: std::ops::RangeInclusive<u32> = 512..=65_536;
const DEFAULT_PAGE_SIZE: u32 = 4096;

const CREATE_TABLES: &str = "CREATE TABLE terrace_target (mark TEXT NOT NULL);
    CREATE TABLE frames (number INTEGER PRIMARY KEY, bytes BLOB NOT NULL);";

/// Returns SQLite's error as one of the system's, which the store acts on.
pub fn system_error(error: rusqlite::Error) -> io::Error {
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
pub fn page_size(settings: &TargetSettings) -> Result<u32, String> {
    let Some(text) = settings.options.get("page_size") else { return Ok(DEFAULT_PAGE_SIZE) };
    let size = text.parse().ok().filter(|size: &u32| PAGE_SIZES.contains(size) && size.is_power_of_two());
    size.ok_or_else(|| format!("option page_size: {text:?} is no power of two from 512 to 65536"))
}

/// Returns the marker, if the file has one.
pub fn read_marker(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let tables = "SELECT count(*) FROM sqlite_master WHERE name = 'terrace_target'";
    match connection.query_row(tables, [], |row| row.get::<_, i64>(0))? {
        0 => Ok(None),
        _ => connection.query_row("SELECT mark FROM terrace_target", [], |row| row.get(0)).optional(),
    }
}

/// Connects to a file. SQLite's default rollback journal makes each statement durable when it returns.
pub fn connect(settings: &TargetSettings, may_make: bool) -> rusqlite::Result<Connection> {
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

/// Creates the tables with a marker. Returns the marker that is there, if another process was quicker.
pub fn create_tables(connection: &Connection, marker: &str) -> rusqlite::Result<String> {
    // The write lock is taken at once, so that only one of two processes finds no marker.
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    if let Some(marker) = read_marker(&transaction)? {
        return Ok(marker);
    }
    transaction.execute_batch(CREATE_TABLES)?;
    transaction.execute("INSERT INTO terrace_target VALUES (?1)", [marker])?;
    transaction.commit()?;
    Ok(marker.to_owned())
}
