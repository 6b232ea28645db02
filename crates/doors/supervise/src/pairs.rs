//! Extended attributes: an object's user pairs, as `user.NAME`.

use std::ffi::c_int;

use terrace::Files;
use terrace::files::{FileError, Presence};
use terrace_posix::{to_attribute_names, to_pair_name, to_presence};

use crate::calls::PairTask;
use crate::memory::Caller;

/// The kernel's limit for values.
const MAX_VALUE_BYTES: u64 = 65536;

/// Carries out a call, and returns its result.
///
/// # Errors
/// The number of the kernel's error.
pub fn answer(files: &Files, caller: Caller, path: &[u8], task: PairTask) -> Result<i64, c_int> {
    let number = |error: FileError| error.errno();
    match task {
        PairTask::Get { name, out, size } => {
            let value = with_name(caller, name, |name| files.pair(path, name).map_err(number))?;
            hand_out(caller, value.as_bytes(), out, size)
        }
        PairTask::List { out, size } => {
            let names = to_attribute_names(files.pairs(path).map_err(number)?);
            hand_out(caller, &names, out, size)
        }
        PairTask::Set { name, value, size, flags } => {
            if size > MAX_VALUE_BYTES {
                return Err(libc::E2BIG);
            }
            let mut bytes = vec![0; size as usize];
            caller.read(value, &mut bytes)?;
            let value = std::str::from_utf8(&bytes).map_err(|_| libc::EOPNOTSUPP)?;
            let set = |name: &str| files.set_pair(path, name, Some(value), to_presence(flags)).map_err(number);
            with_name(caller, name, set).map(|()| 0)
        }
        PairTask::Remove { name } => {
            let remove = |name: &str| files.set_pair(path, name, None, Presence::There).map_err(number);
            with_name(caller, name, remove).map(|()| 0)
        }
    }
}

/// Does something with the name of the pair that an attribute stands for.
fn with_name<T>(caller: Caller, address: u64, act: impl FnOnce(&str) -> Result<T, c_int>) -> Result<T, c_int> {
    let attribute = caller.text(address)?;
    act(to_pair_name(&attribute).ok_or(libc::EOPNOTSUPP)?)
}

/// Copies an answer to a caller; if there is no room, only its length is told.
fn hand_out(caller: Caller, bytes: &[u8], out: u64, size: u64) -> Result<i64, c_int> {
    if size > 0 {
        if bytes.len() as u64 > size {
            return Err(libc::ERANGE);
        }
        caller.write(out, bytes)?;
    }
    Ok(bytes.len() as i64)
}
