//! Words in small mapped files that all processes of a store share. They are only hints. If a file cannot be mapped, each
//! process has words of its own.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicU64;

use memmap2::{MmapOptions, MmapRaw};

/// The words of a file.
pub struct Words<const N: usize>(Where<N>);

enum Where<const N: usize> {
    Shared(MmapRaw),
    Own(Box<[AtomicU64; N]>),
}

impl<const N: usize> Words<N> {
    const MAPPED_BYTES: usize = N * size_of::<AtomicU64>();

    /// Opens the words of a file. Creates the file, with words of 0, if it is missing.
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
            // The file is written, not only extended: a page without space on the disk could not be written to later.
            std::os::unix::fs::FileExt::write_all_at(&file, &vec![0; Self::MAPPED_BYTES], 0)?;
        }
        MmapOptions::new().len(Self::MAPPED_BYTES).map_raw(&file)
    }

    /// Returns whether other processes share these words.
    pub fn is_shared(&self) -> bool {
        matches!(self.0, Where::Shared(_))
    }

    /// Returns all words.
    #[allow(unsafe_code)]
    pub fn all(&self) -> &[AtomicU64; N] {
        match &self.0 {
            Where::Own(words) => words,
            // SAFETY: the map begins at a page, is as long as the words, lives as long as `self`, and is only accessed as
            // these atomics, by all processes. The file is never truncated.
            Where::Shared(map) => unsafe { &*map.as_mut_ptr().cast() },
        }
    }
}

impl<const N: usize> Default for Words<N> {
    /// Creates words of this process alone.
    fn default() -> Self {
        // Made on the heap, since many words do not fit on a thread's stack.
        let words: Box<[AtomicU64]> = (0..N).map(|_| AtomicU64::new(0)).collect();
        Words(Where::Own(words.try_into().unwrap_or_else(|_| Box::new([const { AtomicU64::new(0) }; N]))))
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
