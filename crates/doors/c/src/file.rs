//! Open files: small writes are kept until there are enough of them, or the file is flushed.

use std::ffi::{c_char, c_void};

use engine::files::{self, FileError, Files};

use crate::failure::guard;
use crate::store::{Store, find_store};
use crate::{Failure, Status};
use terrace_foreign::Handles;
use terrace_foreign::{caller_buffer, caller_bytes, string, write_out};

/// The permission bits of a new file.
const NEW_FILE_MODE: u32 = 0o644;
/// The permission bits of a new directory.
const NEW_DIRECTORY_MODE: u32 = 0o755;

static OPEN_FILES: Handles<File> = Handles::new("file");

/// An open file. Many threads may use one at once.
pub struct File {
    file: files::File,
    may_read: bool,
    may_write: bool,
}

impl File {
    fn to_read(&self) -> Result<&files::File, Failure> {
        if self.may_read { Ok(&self.file) } else { Err(Failure::Invalid("the file was not opened to be read".into())) }
    }

    fn to_write(&self) -> Result<&files::File, Failure> {
        if self.may_write {
            Ok(&self.file)
        } else {
            Err(Failure::Invalid("the file was not opened to be written".into()))
        }
    }
}

/// Opens an object as a file. `mode` is as in `fopen`: `"r"` reads, `"r+"` also writes, `"w"` and `"w+"` empty the file or make it, `"a"`
/// and `"a+"` make it if it is missing, and `"wx"` fails if it exists. Missing directories are made.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_file_open(
    store: *const Store,
    key: *const c_char,
    mode: *const c_char,
    file: *mut *mut File,
) -> Status {
    guard(|| {
        if file.is_null() {
            return Err(Failure::Invalid("the place for the file is null".into()));
        }
        let store = find_store(store)?;
        let (key, mode) = (string(key, "the key")?, string(mode, "the mode")?);
        write_out(file, OPEN_FILES.keep(open(store.files()?, key, mode)?));
        Ok(())
    })
}

fn open(files: &Files, key: &[u8], mode: &[u8]) -> Result<File, Failure> {
    let create = |exclusive| create(files, key, exclusive);
    let opened = |file, may_read, may_write| Ok(File { file, may_read, may_write });
    match mode {
        b"r" => opened(files.open(key)?, true, false),
        b"r+" => {
            files.check_writable(key)?;
            opened(files.open(key)?, true, true)
        }
        b"w" | b"w+" => {
            let file = create(false)?;
            file.set_len(0)?;
            opened(file, mode == b"w+", true)
        }
        b"wx" => opened(create(true)?, false, true),
        b"a" | b"a+" => opened(create(false)?, mode == b"a+", true),
        _ => Err(Failure::Invalid(format!(
            "mode: {:?} is none of r, r+, w, w+, wx, a, a+",
            String::from_utf8_lossy(mode)
        ))),
    }
}

/// Makes a file, and the directories above it that are missing.
fn create(files: &Files, key: &[u8], exclusive: bool) -> Result<files::File, Failure> {
    let owner = files.store().owner()?;
    let create = || files.create(key, NEW_FILE_MODE, owner, exclusive);
    match create() {
        Err(FileError::NotFound(_)) => {
            let ends = key.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
            for end in ends {
                match files.make_directory(&key[..end], NEW_DIRECTORY_MODE, owner) {
                    // Perhaps another thread or process has made it.
                    Ok(()) | Err(FileError::Exists(_)) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(create()?)
        }
        created => Ok(created?),
    }
}

/// Flushes a file and closes it. Closing null does nothing. Closing a file twice is an error that does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_file_close(file: *mut File) -> Status {
    guard(|| if file.is_null() { Ok(()) } else { Ok(OPEN_FILES.take(file)?.file.flush()?) })
}

/// Reads from byte `offset` on into `out`; `read` gets the number of bytes, which is less than `length` only at the file's end.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_file_read(
    file: *const File,
    offset: u64,
    out: *mut c_void,
    length: usize,
    read: *mut usize,
) -> Status {
    guard(|| {
        let file = OPEN_FILES.find(file)?;
        write_out(read, file.to_read()?.read_at(offset, caller_buffer(out, length)?)?);
        Ok(())
    })
}

/// Writes bytes at `offset`. They are placed when the file is flushed, synced or closed, or when there are enough of them.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_file_write(file: *const File, offset: u64, bytes: *const c_void, length: usize) -> Status {
    guard(|| Ok(OPEN_FILES.find(file)?.to_write()?.write_at(offset, caller_bytes(bytes, length)?)?))
}

/// Writes bytes at the file's end; `offset` gets the position of the first one, and may be null. Other threads and processes may append to
/// the file meanwhile.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_file_append(
    file: *const File,
    bytes: *const c_void,
    length: usize,
    offset: *mut u64,
) -> Status {
    guard(|| {
        write_out(offset, OPEN_FILES.find(file)?.to_write()?.append(caller_bytes(bytes, length)?)?);
        Ok(())
    })
}

/// Returns a file's length in bytes, with what is not yet flushed.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_file_length(file: *const File, length: *mut u64) -> Status {
    guard(|| {
        write_out(length, OPEN_FILES.find(file)?.file.stat()?.length);
        Ok(())
    })
}

/// Cuts a file off at `length` bytes, or extends it with zeros.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_file_truncate(file: *const File, length: u64) -> Status {
    guard(|| Ok(OPEN_FILES.find(file)?.to_write()?.set_len(length)?))
}

/// Places what was written: other processes see it, and it survives the end of this one.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_file_flush(file: *const File) -> Status {
    guard(|| Ok(OPEN_FILES.find(file)?.file.flush()?))
}

/// Flushes a file, and waits until it is durable.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_file_sync(file: *const File) -> Status {
    guard(|| Ok(OPEN_FILES.find(file)?.file.sync()?))
}
