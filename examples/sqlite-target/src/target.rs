//! The target: frames in a table.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::ffi::SQLITE_READONLY_DBMOVED;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, params};
use terrace::frame::{Frame, Header, MAX_HEADER};
use terrace::tier::{EmptiedNote, Place, Space, Target, TargetOwner, TargetSettings, Used};

/// The longest wait for another process that is writing.
const MAX_BUSY_WAIT: Duration = Duration::from_secs(30);

/// Each frame is a segment of its own, so the segment's number is the key.
const CREATE_TABLES: &str = "CREATE TABLE terrace_target (mark TEXT NOT NULL);
    CREATE TABLE frames (segment INTEGER PRIMARY KEY, bytes BLOB NOT NULL);";

/// A target in one SQLite file.
pub struct SqliteTarget {
    path: PathBuf,
    page_size: u32,
    capacity: u64,
    persistent: bool,
    owner: TargetOwner,
    used: Used,
    emptied: EmptiedNote,
    /// Open since the marker was seen.
    connection: Mutex<Option<Connection>>,
}

/// SQLite's error as one of the system's, which the store acts on.
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

/// Connects to a file. SQLite's default rollback journal makes each statement durable when it returns.
pub fn connect(path: &Path, may_make: bool) -> io::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let flags = if may_make { flags | OpenFlags::SQLITE_OPEN_CREATE } else { flags };
    let connection = Connection::open_with_flags(path, flags).map_err(system)?;
    connection.busy_timeout(MAX_BUSY_WAIT).map_err(system)?;
    connection.pragma_update(None, "synchronous", "FULL").map_err(system)?;
    Ok(connection)
}

/// The marker, if the file holds a target.
pub fn read_mark(connection: &Connection) -> io::Result<Option<String>> {
    let tables = "SELECT count(*) FROM sqlite_master WHERE name = 'terrace_target'";
    let count: i64 = connection.query_row(tables, [], |row| row.get(0)).map_err(system)?;
    if count == 0 {
        return Ok(None);
    }
    connection.query_row("SELECT mark FROM terrace_target", [], |row| row.get(0)).optional().map_err(system)
}

/// The bytes of all frames. SQLite takes lengths from the rows' headers, and reads no frame.
pub fn count_bytes(connection: &Connection) -> io::Result<u64> {
    let sum = "SELECT coalesce(sum(length(bytes)), 0) FROM frames";
    connection.query_row(sum, [], |row| row.get::<_, i64>(0)).map(|bytes| bytes as u64).map_err(system)
}

impl SqliteTarget {
    /// The target of this owner. Nothing is looked at yet.
    pub fn new(settings: &TargetSettings, owner: &TargetOwner, page_size: u32) -> SqliteTarget {
        SqliteTarget {
            path: settings.path.clone(),
            page_size,
            capacity: settings.capacity,
            persistent: settings.persistent,
            owner: owner.clone(),
            used: owner.used(),
            emptied: owner.emptied(),
            connection: Mutex::default(),
        }
    }

    /// The connection to the file, once it is known to be this target.
    fn connection(&self) -> io::Result<Connected<'_>> {
        // A panic of another thread leaves a connection whose transaction was rolled back.
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        // SQLite would go on writing to a file that was deleted, and its frames would be lost.
        if connection.is_none() || !self.path.try_exists()? {
            *connection = None;
            *connection = Some(self.recognize()?);
        }
        Ok(Connected(connection))
    }

    /// Connects, checks the marker, and makes the target where it may be made.
    fn recognize(&self) -> io::Result<Connection> {
        let error = |kind, reason: &str| io::Error::new(kind, format!("{}: {reason}", self.path.display()));
        // A file that is missing may be on a disk that is not mounted. An empty one in its place is not the target.
        let may_make = !self.persistent || !self.owner.was_made();
        let missing = || {
            let advice = "this is not the target; if that is lost for good, `terrace tiers renew` makes an empty one";
            error(io::ErrorKind::NotConnected, advice)
        };
        if !may_make && !self.path.try_exists()? {
            return Err(missing());
        }
        let mut connection = connect(&self.path, may_make)?;
        let mark = match read_mark(&connection)? {
            None if may_make => self.make(&mut connection)?,
            mark => mark.ok_or_else(missing)?,
        };
        if mark != self.owner.mark() {
            return Err(error(io::ErrorKind::AlreadyExists, "another store or target is here"));
        }
        self.owner.note_made()?;
        Ok(connection)
    }

    /// Makes an empty target, unless another process has just made one. Returns the marker.
    fn make(&self, connection: &mut Connection) -> io::Result<String> {
        // Before the marker: otherwise a crash in between would leave a target that nobody knows to be empty.
        self.emptied.write()?;
        connection.pragma_update(None, "page_size", self.page_size).map_err(system)?;
        // The write lock is taken at once, so that only one of two processes finds no marker.
        let behavior = rusqlite::TransactionBehavior::Immediate;
        let transaction = connection.transaction_with_behavior(behavior).map_err(system)?;
        if let Some(mark) = read_mark(&transaction)? {
            return Ok(mark);
        }
        let mark = self.owner.mark();
        transaction.execute_batch(CREATE_TABLES).map_err(system)?;
        transaction.execute("INSERT INTO terrace_target VALUES (?1)", [&mark]).map_err(system)?;
        transaction.commit().map_err(system)?;
        Ok(mark)
    }
}

/// A connection that this thread alone uses.
struct Connected<'a>(MutexGuard<'a, Option<Connection>>);

impl Connected<'_> {
    fn get(&self) -> io::Result<&Connection> {
        self.0.as_ref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Target for SqliteTarget {
    fn append(&self, frame: &Frame<'_>) -> io::Result<Place> {
        let connected = self.connection()?;
        let connection = connected.get()?;
        let segment = self.owner.ids.next()?;
        let place = Place { segment, offset: 0, length: frame.header.frame_len() as u32 };
        let mut bytes = Vec::with_capacity(place.length as usize);
        frame.header.write(self.owner.store, place, &mut bytes);
        bytes.extend_from_slice(frame.payload);
        let _room = self.used.take(bytes.len() as u64, self.capacity, || count_bytes(connection))?;
        let insert = connection.execute("INSERT INTO frames VALUES (?1, ?2)", params![segment as i64, bytes]);
        insert.map_err(system).inspect_err(|_| self.used.make_stale())?;
        Ok(place)
    }

    fn read(&self, place: Place, skip: u32, out: &mut [u8]) -> io::Result<()> {
        let connected = self.connection()?;
        let part = "SELECT substr(bytes, ?2, ?3) FROM frames WHERE segment = ?1";
        let range = params![place.segment as i64, i64::from(skip) + 1, out.len() as i64];
        let bytes = connected.get()?.query_row(part, range, |row| row.get::<_, Vec<u8>>(0)).optional();
        let bytes = bytes.map_err(system)?.filter(|_| place.offset == 0).ok_or(io::ErrorKind::NotFound)?;
        if bytes.len() < out.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        out.copy_from_slice(&bytes);
        Ok(())
    }

    /// Does nothing: every statement is durable when it returns.
    fn sync(&self, _segments: &[u64]) -> io::Result<()> {
        Ok(())
    }

    fn free(&self, places: &[Place]) -> io::Result<()> {
        let connected = self.connection()?;
        let transaction = connected.get()?.unchecked_transaction().map_err(system)?;
        for place in places.iter().filter(|place| place.offset == 0) {
            let delete = "DELETE FROM frames WHERE segment = ?1";
            transaction.execute(delete, [place.segment as i64]).map_err(system)?;
        }
        transaction.commit().map_err(system)?;
        self.used.make_stale();
        Ok(())
    }

    fn discard(&self, segment: u64) -> io::Result<bool> {
        self.free(&[Place { segment, offset: 0, length: 0 }])?;
        Ok(true)
    }

    fn space(&self) -> io::Result<Space> {
        let connected = self.connection()?;
        let connection = connected.get()?;
        Ok(Space::within(self.used.get(Duration::ZERO, || count_bytes(connection))?, self.capacity))
    }

    fn used(&self) -> u64 {
        self.used.counted()
    }

    fn scan(&self, found: &mut dyn FnMut(Place, Header)) -> io::Result<()> {
        let heads: Vec<(i64, Vec<u8>)> = {
            let connected = self.connection()?;
            let select = "SELECT segment, substr(bytes, 1, ?1) FROM frames";
            let mut select = connected.get()?.prepare(select).map_err(system)?;
            let rows = select.query_map([MAX_HEADER as i64], |row| Ok((row.get(0)?, row.get(1)?))).map_err(system)?;
            rows.collect::<Result<_, _>>().map_err(system)?
        };
        // Nothing is locked while `found` runs, which may read.
        for (segment, head) in heads {
            let place = Place { segment: segment as u64, offset: 0, length: 0 };
            if let Ok(header) = Header::read(&head, self.owner.store, place) {
                found(Place { length: header.frame_len() as u32, ..place }, header);
            }
        }
        Ok(())
    }

    fn ready(&self) -> io::Result<()> {
        self.connection().map(drop)
    }

    fn check_again(&self) -> io::Result<()> {
        *self.connection.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.ready()
    }

    fn is_new(&self) -> bool {
        self.emptied.exists()
    }

    fn forget_new(&self) -> io::Result<()> {
        self.emptied.remove()
    }
}
