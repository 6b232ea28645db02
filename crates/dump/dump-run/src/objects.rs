//! The program and the libraries that were loaded with it, and which of them hold the program's state.

use std::collections::BTreeSet;
use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libc::{PF_W, PF_X, PT_GNU_RELRO, PT_LOAD, PT_TLS};
use terrace_dump::Result;

use crate::binaries;
use crate::ranges::{Addresses, to_pages, without};

/// A program or library in memory.
pub struct LoadedObject {
    pub path: PathBuf,
    /// The address that the addresses in its file are counted from.
    pub base: usize,
    code: Vec<Addresses>,
    /// The pages of its variables.
    pub variables: Vec<Addresses>,
    /// Its variables of the thread that has begun the process.
    pub thread_variables: Option<Addresses>,
    /// Whether it holds state of the program.
    pub is_program: bool,
}

/// The objects, in the order in which they were loaded, so that the program is the first.
static LOADED_OBJECTS: OnceLock<Result<Vec<LoadedObject>, String>> = OnceLock::new();

/// Finds the objects. The thread that has begun the process calls it, before the program runs.
pub fn find() {
    LOADED_OBJECTS.get_or_init(|| {
        let mut objects = list_loaded();
        mark_program(&mut objects).map_err(|error| error.to_string())?;
        Ok(objects)
    });
}

/// Returns the objects.
pub fn get() -> Result<&'static [LoadedObject]> {
    let refuse = |reason: &String| terrace_dump::Error::Refused(reason.clone());
    match LOADED_OBJECTS.get() {
        Some(objects) => objects.as_deref().map_err(refuse),
        None => Err(refuse(&"the program has begun without this library".to_owned())),
    }
}

/// Returns whether an address is in the program's code; never before `find`.
pub fn is_program(address: usize) -> bool {
    let Some(Ok(objects)) = LOADED_OBJECTS.get() else { return false };
    let program = objects.iter().filter(|object| object.is_program);
    program.flat_map(|object| &object.code).any(|code| code.contains(&address))
}

/// Returns whether an address is in a variable of the program or of any library.
pub fn is_variable(address: usize) -> bool {
    find_with_variable(address).is_some()
}

/// Returns whether an address is in a variable of the program.
pub fn is_program_variable(address: usize) -> bool {
    find_with_variable(address).is_some_and(|object| object.is_program)
}

fn find_with_variable(address: usize) -> Option<&'static LoadedObject> {
    let Some(Ok(objects)) = LOADED_OBJECTS.get() else { return None };
    objects.iter().find(|object| object.variables.iter().any(|variables| variables.contains(&address)))
}

/// Returns the variables of other libraries that are among the program's own.
pub fn find_foreign_variables(objects: &[LoadedObject]) -> Result<Vec<Addresses>> {
    let Some((program, libraries)) = objects.split_first() else { return Ok(Vec::new()) };
    let mut foreign = Vec::new();
    for copied in binaries::find_copied(&program.path)? {
        let mut is_own = false;
        for library in libraries.iter().filter(|library| library.is_program) {
            is_own |= binaries::defines(&library.path, &copied.name)?;
        }
        if !is_own {
            let start = program.base + copied.offset;
            foreign.push(start..start + copied.length);
        }
    }
    foreign.sort_by_key(|range| range.start);
    Ok(foreign)
}

fn list_loaded() -> Vec<LoadedObject> {
    unsafe extern "C" fn note(object: *mut libc::dl_phdr_info, _: usize, out: *mut c_void) -> c_int {
        // SAFETY: the linker gives a valid entry; `out` is the list below.
        unsafe { (*out.cast::<Vec<LoadedObject>>()).extend(describe(&*object)) };
        0
    }
    let mut objects: Vec<LoadedObject> = Vec::new();
    // SAFETY: the list outlives the call, and nobody else uses it.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut objects).cast()) };
    objects
}

/// Describes an object; `None` for the kernel's own, which has no file.
fn describe(object: &libc::dl_phdr_info) -> Option<LoadedObject> {
    // SAFETY: the linker's entry has a name that ends with a zero byte, and this number of headers.
    let (name, headers) = unsafe {
        let headers = std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum));
        (CStr::from_ptr(object.dlpi_name).to_bytes(), headers)
    };
    let path = match name {
        b"" => std::env::current_exe().ok()?,
        name => PathBuf::from(OsStr::from_bytes(name)),
    };
    if !path.is_file() {
        return None;
    }
    let base = object.dlpi_addr as usize;
    let range = |header: &libc::Elf64_Phdr| {
        let start = base + header.p_vaddr as usize;
        start..start + header.p_memsz as usize
    };
    let of = |kind| headers.iter().filter(move |header| header.p_type == kind);
    // The linker has made them read-only, up to the last whole page.
    let constant: Vec<Addresses> =
        of(PT_GNU_RELRO).map(range).map(|range| to_pages(&(range.start..range.end / 4096 * 4096))).collect();
    let writable = of(PT_LOAD).filter(|header| header.p_flags & PF_W != 0);
    let variables = writable.flat_map(|header| without(&to_pages(&range(header)), &constant)).collect();
    let code = of(PT_LOAD).filter(|header| header.p_flags & PF_X != 0).map(range).collect();
    let thread_variables = of(PT_TLS).next().filter(|_| !object.dlpi_tls_data.is_null()).map(|header| {
        let start = object.dlpi_tls_data as usize;
        start..start + header.p_memsz as usize
    });
    Some(LoadedObject { path, base, code, variables, thread_variables, is_program: false })
}

/// Marks the program and the libraries that it needs, but not those that this library needs, too: MPI and the C library have state of their
/// own.
fn mark_program(objects: &mut [LoadedObject]) -> Result<()> {
    let own_code = mark_program as *const () as usize;
    let own = objects.iter().position(|object| object.code.iter().any(|code| code.contains(&own_code)));
    let (program, foreign) = (find_all_needed(objects, Some(0))?, find_all_needed(objects, own)?);
    for number in program.difference(&foreign) {
        objects[*number].is_program = true;
    }
    Ok(())
}

/// Returns an object and all that it needs, by their numbers.
fn find_all_needed(objects: &[LoadedObject], first: Option<usize>) -> Result<BTreeSet<usize>> {
    let mut found = BTreeSet::new();
    let mut waiting: Vec<usize> = first.into_iter().collect();
    while let Some(number) = waiting.pop() {
        if !found.insert(number) {
            continue;
        }
        for name in binaries::find_needed(&objects[number].path)? {
            let is_it = |path: &Path| path.file_name().is_some_and(|file| file.as_bytes() == name);
            waiting.extend(objects.iter().position(|object| is_it(&object.path)));
        }
    }
    Ok(found)
}
