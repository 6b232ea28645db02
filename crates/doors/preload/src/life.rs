//! The start and the end of a process.

use std::ffi::c_int;
use std::sync::Arc;

use crate::answer::{complain, guard};
use crate::calls::stdio;
use crate::description::OpenDescription;
use crate::{asked, folder, kernel, opened, real, settings, table};

#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = start;

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_END: extern "C" fn() = opened::end;

/// A library of Terrace that the program loads itself finds this name, and leaves paths below the prefix to this one.
#[unsafe(no_mangle)]
pub static TERRACE_PRELOAD_SERVES: u8 = 1;

/// Takes over the descriptors and the current directory that this process inherited.
extern "C" fn start() {
    if settings::is_refused() {
        complain(settings::REFUSAL_ADVICE);
    }
    if settings::prefix().is_empty() {
        return;
    }
    asked::read();
    let adopted = guard(|| {
        folder::inherit();
        inherit_descriptors();
        Ok(())
    });
    if adopted.is_err() {
        complain("the open files that this program inherited were not found; it sees errors where it uses them");
    }
    (0..3).for_each(stdio::adopt);
}

/// Finds the descriptors that are notes. Others cost one call of `fcntl` each.
fn inherit_descriptors() {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<c_int>().ok());
    let mut found: Vec<(u64, Arc<OpenDescription>)> = Vec::new();
    for fd in numbers.collect::<Vec<_>>() {
        // SAFETY: it asks for flags only.
        let flags = unsafe { real::fcntl(fd, libc::F_GETFL, 0) };
        if flags < 0 || flags & libc::O_PATH == 0 {
            continue;
        }
        let Some(page) = page_of(fd) else { continue };
        // Descriptors of one page share a description.
        let known = found.iter().find(|(of, _)| *of == page).map(|(_, known)| known.clone());
        let Some(description) = known.or_else(|| OpenDescription::inherited(fd).map(Arc::new)) else { continue };
        found.push((page, description.clone()));
        // A descriptor with too high a number is closed: its use would be an error, too.
        let _ = table::add(fd, description);
    }
}

/// Returns the number of the file behind a descriptor.
fn page_of(fd: c_int) -> Option<u64> {
    kernel::stat_open(fd).map(|stat| stat.st_ino)
}
