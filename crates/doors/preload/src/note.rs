//! [`NotePage`]: the page of memory that processes share for an open file.

use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicUsize, Ordering};

use rustix_futex_sync::{Mutex, MutexGuard};

use crate::errors::{CallResult, ErrorNumber, of_kernel, refuse};
use crate::inside::Inside;
use crate::{kernel, numbers, real};

/// The first bytes of a note.
const NOTE_MARK: u64 = u64::from_le_bytes(*b"terrace1");
/// The longest path in a note; that of a key is shorter.
pub const MAX_PATH_BYTES: usize = 2048;
/// The number of pages that are kept for the next files. A new one takes six calls of the kernel and a page fault.
const MAX_SPARE_PAGES: usize = 16;

/// If more files are open than this, new ones keep no second descriptor for a spare page: the number of descriptors is limited.
const MAX_FILES_WITH_SPARES: usize = 64;

/// How often this process has begun to give its descriptors to another one. Pages that are older may be in use there.
static SHARING_COUNT: AtomicUsize = AtomicUsize::new(0);
/// How many threads do so now.
static SHARERS_COUNT: AtomicUsize = AtomicUsize::new(0);
/// A leaf, held to take or add a page; and while this process forks.
static SPARE_PAGES: Mutex<SparePages> = Mutex::new(SparePages(Vec::new()));

/// The part of an open file's description that its processes share.
#[repr(C)]
pub struct OpenNote {
    mark: u64,
    /// The object's number, which is 0 for a directory.
    pub object: u64,
    /// The offset of the next byte.
    pub offset: AtomicI64,
    /// The flags of `open` that matter later.
    pub flags: AtomicI32,
    path_length: u32,
    path: [u8; MAX_PATH_BYTES],
}

impl OpenNote {
    /// The path below the prefix.
    pub fn path(&self) -> &[u8] {
        self.path.get(..self.path_length as usize).unwrap_or_default()
    }

    /// Changes the path. One that is too long stays as it was.
    pub fn set_path(&mut self, path: &[u8]) {
        if let Some(room) = self.path.get_mut(..path.len()) {
            room.copy_from_slice(path);
            self.path_length = path.len() as u32;
        }
    }
}

/// A mapped page, and a descriptor of its file, which was opened with `O_PATH`.
struct MappedPage {
    note: NonNull<OpenNote>,
    path_only: Option<OwnedFd>,
}

// SAFETY: a page in `SPARE_PAGES` has no other user.
unsafe impl Send for MappedPage {}

impl Drop for MappedPage {
    fn drop(&mut self) {
        // SAFETY: it is this page's own mapping, which nobody uses any more.
        unsafe { libc::munmap(self.note.as_ptr().cast(), size_of::<OpenNote>()) };
    }
}

/// The page of an open file.
pub struct NotePage {
    /// Taken when this is dropped, for the next file or for good.
    page: ManuallyDrop<MappedPage>,
    /// `SHARING_COUNT` when the file was opened.
    since: usize,
}

// SAFETY: the note's parts that change are atomic, or change under a lock of the description.
unsafe impl Sync for NotePage {}

/// While it lives, this process may be giving its descriptors to another one.
///
/// `SeqCst`, because two counts are read one after the other: who finds no sharer after one has ended also finds `SHARING_COUNT` changed.
pub struct Sharing(());

impl Sharing {
    /// Called before a fork, or before a program is started.
    pub fn begin() -> Sharing {
        SHARERS_COUNT.fetch_add(1, Ordering::SeqCst);
        SHARING_COUNT.fetch_add(1, Ordering::SeqCst);
        Sharing(())
    }
}

impl Drop for Sharing {
    fn drop(&mut self) {
        SHARERS_COUNT.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Whether no process but this one can have a file that was opened at `since`.
fn is_own_since(since: usize) -> bool {
    SHARERS_COUNT.load(Ordering::SeqCst) == 0 && SHARING_COUNT.load(Ordering::SeqCst) == since
}

/// Locks the spare pages while the process forks.
pub fn lock() -> MutexGuard<'static, SparePages> {
    SPARE_PAGES.lock()
}

/// The pages that are kept for the next files.
pub struct SparePages(Vec<MappedPage>);

impl SparePages {
    /// Forgets the pages in a forked process: the parent uses them for other files.
    pub fn forget(&mut self) {
        std::mem::take(&mut self.0).into_iter().for_each(std::mem::forget);
    }
}

impl NotePage {
    /// Makes the page of a file that was just opened, and its descriptor.
    pub fn new(object: u64, flags: c_int, path: &[u8], closes_on_exec: bool) -> CallResult<(NotePage, c_int)> {
        // A file that is opened while descriptors are given away may be among them.
        let is_sharing = SHARERS_COUNT.load(Ordering::SeqCst) > 0;
        let since = if is_sharing { usize::MAX } else { SHARING_COUNT.load(Ordering::SeqCst) };
        let spare = if is_own_since(since) { SPARE_PAGES.lock().0.pop() } else { None };
        let mut page = spare.map_or_else(new_page, Ok)?;
        // SAFETY: nobody else has the page.
        let note = unsafe { &mut *page.note.as_ptr() };
        note.object = object;
        *note.offset.get_mut() = 0;
        *note.flags.get_mut() = flags;
        note.set_path(path);
        note.mark = NOTE_MARK;
        let command = if closes_on_exec { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
        let Some(path_only) = &page.path_only else { return refuse(libc::EBADF) };
        let copy = || {
            let _change = numbers::change_programs();
            // SAFETY: the descriptor is ours.
            unsafe { real::fcntl(path_only.as_raw_fd(), command, 0) }
        };
        // The lowest number that is free, as programs expect it. The change ends here: a spare is closed below, which waits for it.
        let fd = of_kernel(copy())?;
        if numbers::count() > MAX_FILES_WITH_SPARES {
            page.path_only = None;
        }
        Ok((NotePage { page: ManuallyDrop::new(page), since }, fd))
    }

    /// Finds the page of a descriptor that this process inherited.
    pub fn inherited(fd: c_int) -> Option<NotePage> {
        let file = reopen(fd, libc::O_RDWR).ok()?;
        if kernel::stat_open(file.as_raw_fd())?.st_size != size_of::<OpenNote>() as i64 {
            return None;
        }
        let page = MappedPage { note: map(file.as_raw_fd()).ok()?, path_only: None };
        // SAFETY: the file is as long as a note, and all bytes are valid in one.
        let mark = unsafe { (*page.note.as_ptr()).mark };
        // Other processes have it, so it never becomes a spare one.
        (mark == NOTE_MARK).then(|| NotePage { page: ManuallyDrop::new(page), since: usize::MAX })
    }

    /// Returns the same page for a forked process. The original must be forgotten, not dropped.
    pub fn forked(&self) -> NotePage {
        let page = MappedPage { note: self.page.note, path_only: None };
        NotePage { page: ManuallyDrop::new(page), since: usize::MAX }
    }

    /// Returns the note for a change of its path.
    ///
    /// # Safety
    /// No other thread of this process reads or changes the path meanwhile.
    pub unsafe fn change(&self, change: impl FnOnce(&mut OpenNote)) {
        // SAFETY: as the caller says. Other processes read a path only when they start, and at worst fail to open the file.
        change(unsafe { &mut *self.page.note.as_ptr() });
    }
}

impl Drop for NotePage {
    fn drop(&mut self) {
        // The page's descriptor is the engine's.
        let _inside = Inside::enter();
        // SAFETY: it is not used after this.
        let page = unsafe { ManuallyDrop::take(&mut self.page) };
        if page.path_only.is_some() && is_own_since(self.since) {
            let mut spare = SPARE_PAGES.lock();
            if spare.0.len() < MAX_SPARE_PAGES {
                spare.0.push(page);
            }
        }
    }
}

/// Makes a page and its descriptor, among the engine's own.
fn new_page() -> CallResult<MappedPage> {
    let file = numbers::memory_file(c"terrace-open", libc::MFD_NOEXEC_SEAL)?;
    // SAFETY: the descriptor is ours.
    of_kernel(unsafe { real::ftruncate(file.as_raw_fd(), size_of::<OpenNote>() as i64) })?;
    let note = map(file.as_raw_fd())?;
    let mut page = MappedPage { note, path_only: None };
    page.path_only = Some(reopen(file.as_raw_fd(), libc::O_PATH)?);
    Ok(page)
}

fn map(fd: c_int) -> CallResult<NonNull<OpenNote>> {
    let (length, protection) = (size_of::<OpenNote>(), libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: the system chooses the place of the mapping.
    let at = unsafe { real::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED, fd, 0) };
    let at = NonNull::new(at).filter(|at| at.as_ptr() != libc::MAP_FAILED).ok_or(ErrorNumber(libc::ENOMEM))?;
    Ok(at.cast::<OpenNote>())
}

/// Opens the file of a descriptor once more, for the engine.
fn reopen(fd: c_int, flags: c_int) -> CallResult<OwnedFd> {
    let path = format!("/proc/self/fd/{fd}\0");
    // SAFETY: the path ends with a zero byte, and the new descriptor has no other owner.
    unsafe {
        let open = || real::openat(libc::AT_FDCWD, path.as_ptr().cast(), flags | libc::O_CLOEXEC, 0);
        Ok(OwnedFd::from_raw_fd(of_kernel(numbers::open_apart(open))?))
    }
}

impl Deref for NotePage {
    type Target = OpenNote;

    fn deref(&self) -> &OpenNote {
        // SAFETY: it is mapped as long as `self` lives.
        unsafe { self.page.note.as_ref() }
    }
}
