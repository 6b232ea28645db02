//! The memory of the processes that ask.

// The C library's structures are passed on as bytes.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io::{IoSlice, IoSliceMut};
use std::slice;

use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;

/// The unit in which memory is mapped: reading within it succeeds wholly or not at all.
const PAGE_BYTES: u64 = 4096;

/// A process that waits for an answer.
#[derive(Clone, Copy)]
pub struct Caller(Pid);

impl Caller {
    /// The process, or thread, with this number.
    pub fn new(number: u32) -> Caller {
        Caller(Pid::from_raw(number as i32))
    }

    /// Its number.
    pub fn number(self) -> i32 {
        self.0.as_raw()
    }

    /// Fills a buffer from its memory.
    pub fn read(self, address: u64, out: &mut [u8]) -> Result<(), c_int> {
        let remote = RemoteIoVec { base: address as usize, len: out.len() };
        let length = out.len();
        let read = process_vm_readv(self.0, &mut [IoSliceMut::new(out)], &[remote]).map_err(|error| error as c_int)?;
        if read == length { Ok(()) } else { Err(libc::EFAULT) }
    }

    /// Writes to its memory.
    pub fn write(self, address: u64, bytes: &[u8]) -> Result<(), c_int> {
        let remote = RemoteIoVec { base: address as usize, len: bytes.len() };
        let written = process_vm_writev(self.0, &[IoSlice::new(bytes)], &[remote]).map_err(|error| error as c_int)?;
        if written == bytes.len() { Ok(()) } else { Err(libc::EFAULT) }
    }

    /// Writes one of the C library's structures to its memory.
    pub fn write_value<T: Copy>(self, address: u64, value: &T) -> Result<(), c_int> {
        // SAFETY: the structures consist of numbers, and were made of zeros, so that all of their bytes are set.
        let bytes = unsafe { slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>()) };
        self.write(address, bytes)
    }

    /// Reads a text that ends with a zero byte, such as a path.
    pub fn text(self, address: u64) -> Result<Vec<u8>, c_int> {
        let mut text = Vec::new();
        while text.len() < libc::PATH_MAX as usize {
            let from = address.checked_add(text.len() as u64).ok_or(libc::EFAULT)?;
            let mut part = [0; PAGE_BYTES as usize];
            // Most paths are short.
            let length = (PAGE_BYTES - from % PAGE_BYTES).min(if text.is_empty() { 256 } else { PAGE_BYTES }) as usize;
            self.read(from, &mut part[..length])?;
            match part[..length].iter().position(|&byte| byte == 0) {
                Some(end) => {
                    text.extend_from_slice(&part[..end]);
                    return Ok(text);
                }
                None => text.extend_from_slice(&part[..length]),
            }
        }
        Err(libc::ENAMETOOLONG)
    }

    /// Its mask of new files' permissions.
    pub fn mask(self) -> u32 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.number())).unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
        mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o022)
    }
}
