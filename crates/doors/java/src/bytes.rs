//! Bytes of Java: those of a direct buffer are used where they are, those of an array are copied. The caller must not change a buffer until
//! the call returns.

use std::borrow::Cow;
use std::slice;

use jni::Env;
use jni::objects::{JByteArray, JByteBuffer};
use jni::sys::jint;

use crate::thrown::Thrown;

/// Some bytes of a direct buffer, or of an array if the buffer is null.
pub struct JavaBytes<'a, 'local> {
    pub buffer: &'a JByteBuffer<'local>,
    pub array: &'a JByteArray<'local>,
    pub offset: jint,
    pub length: jint,
}

impl<'a> JavaBytes<'a, '_> {
    /// Returns the bytes.
    pub fn read(&self, env: &Env<'_>) -> Result<Cow<'a, [u8]>, Thrown> {
        if !self.buffer.is_null() {
            let (address, length) = self.direct(env)?;
            // SAFETY: the buffer has these bytes, and the caller's reference to it keeps them during the call.
            return Ok(Cow::Borrowed(unsafe { slice::from_raw_parts(address, length) }));
        }
        let mut copy = vec![0; self.length()?];
        self.array.get_region(env, self.offset, signed_mut(&mut copy))?;
        Ok(Cow::Owned(copy))
    }

    /// Fills the bytes by `fill`, which returns the number of those that it has filled.
    pub fn fill<E>(&self, env: &Env<'_>, fill: impl FnOnce(&mut [u8]) -> Result<usize, E>) -> Result<usize, Thrown>
    where
        Thrown: From<E>,
    {
        if !self.buffer.is_null() {
            let (address, length) = self.direct(env)?;
            // SAFETY: the buffer has these bytes and may be written to, which `Store.java` checks. The caller's reference to it keeps
            // them during the call.
            return Ok(fill(unsafe { slice::from_raw_parts_mut(address, length) })?);
        }
        let mut copy = vec![0; self.length()?];
        let filled = fill(&mut copy)?;
        self.array.set_region(env, self.offset, signed(&copy[..filled]))?;
        Ok(filled)
    }

    fn direct(&self, env: &Env<'_>) -> Result<(*mut u8, usize), Thrown> {
        let (length, capacity) = (self.length()?, env.get_direct_buffer_capacity(self.buffer)?);
        let start = usize::try_from(self.offset).map_err(|_| self.out_of_bounds())?;
        if start.checked_add(length).is_none_or(|end| end > capacity) {
            return Err(self.out_of_bounds());
        }
        let address = env.get_direct_buffer_address(self.buffer)?;
        // SAFETY: the buffer has `capacity` bytes, and the start is not beyond them.
        Ok((unsafe { address.add(start) }, length))
    }

    fn length(&self) -> Result<usize, Thrown> {
        usize::try_from(self.length).map_err(|_| self.out_of_bounds())
    }

    fn out_of_bounds(&self) -> Thrown {
        Thrown::Invalid(format!("{} bytes from {} on are not in the buffer", self.length, self.offset))
    }
}

/// Returns bytes as Java has them.
pub fn signed(bytes: &[u8]) -> &[i8] {
    // SAFETY: both types have one byte, and all values of it are valid.
    unsafe { slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) }
}

fn signed_mut(bytes: &mut [u8]) -> &mut [i8] {
    // SAFETY: both types have one byte, and all values of it are valid.
    unsafe { slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len()) }
}
