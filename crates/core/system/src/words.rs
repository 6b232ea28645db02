//! Words of small mapped files that all processes of a store see at once. What they say is only ever a help; where a file
//! cannot be mapped, a process sees its own.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicU64;

use memmap2::{MmapOptions, MmapRaw};

/// Some words of a file.
pub struct Words<const N: usize>(Where<N>);

enum Where<const N: usize> {
    Shared(MmapRaw),
    Own([AtomicU64; N]),
}

impl<const N: usize> Words<N> {
    const MAPPED_BYTES: usize = N * size_of::<AtomicU64>();

    /// The words of this file, which is made if there is none; all are 0 then.
    pub fn open(path: &Path) -> Words<N> {
        Self::map(path).map_or_else(
            |error| {
                tracing::debug!(path = %path.display(), %error, "not shared with other processes");
                Words::default()
            },
            |map| Words(Where::Shared(map)),
        )
    }

    fn map(path: &Path) -> io::Result<MmapRaw> {
        let file = File::options().create(true).truncate(false).read(true).write(true).open(path)?;
        if file.metadata()?.len() < Self::MAPPED_BYTES as u64 {
            // Written, not only lengthened: a page that has no place on the disk could not be written to later.
            std::os::unix::fs::FileExt::write_all_at(&file, &vec![0; Self::MAPPED_BYTES], 0)?;
        }
        MmapOptions::new().len(Self::MAPPED_BYTES).map_raw(&file)
    }

    /// Whether other processes see them.
    pub fn is_shared(&self) -> bool {
        matches!(self.0, Where::Shared(_))
    }

    /// All of them.
    #[allow(unsafe_code)]
    pub fn all(&self) -> &[AtomicU64; N] {
        match &self.0 {
            Where::Own(words) => words,
            // SAFETY: the map begins at a page, is as long as the words, lives as long as `self`, and is only ever
            // accessed as these atomics, by all processes. The file is never cut.
            Where::Shared(map) => unsafe { &*map.as_mut_ptr().cast() },
        }
    }
}

impl<const N: usize> Default for Words<N> {
    /// Words of this process's own.
    fn default() -> Self {
        Words(Where::Own([const { AtomicU64::new(0) }; N]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn who_opens_the_same_file_sees_the_same_words() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("words");
        let (one, two): (Words<2>, Words<2>) = (Words::open(&path), Words::open(&path));
        one.all()[1].fetch_add(7, Relaxed);
        assert_eq!(two.all()[1].load(Relaxed), 7);
        assert_eq!(Words::<2>::open(&path).all()[1].load(Relaxed), 7);
        assert_eq!(Words::<2>::open(dir.path()).all()[1].load(Relaxed), 0, "a folder is no file of words");
    }
}
