//! The keys of values of a thread, which the C library keeps for the program. A checkpoint has the values of the one thread.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::mem;

use libc::pthread_key_t;
use rustix_futex_sync::Mutex;

use super::behind::Behind;
use crate::heap::PROGRAM_HEAP;
use crate::{handles, objects};

/// Keys are told from what MPI makes by such a word.
const KEY_TAG: usize = 3 << 32;

/// The keys that exist. Held for a look or a change.
static MADE_KEYS: Mutex<BTreeMap<pthread_key_t, KeyMaker>> = Mutex::new(BTreeMap::new());

/// Who has made a key.
struct KeyMaker {
    caller: usize,
    /// Where it has the key.
    place: usize,
}

impl KeyMaker {
    /// Whether it is the program. Its own function may have been called by the C library (`pthread_once`), to which it returns.
    fn is_program(&self) -> bool {
        objects::is_program(self.caller)
            || objects::is_program_variable(self.place)
            || PROGRAM_HEAP.has(self.place as *const c_void)
    }
}

with_caller! {
    pthread_key_create("rdx") => create_key;
    tss_create("rdx") => create_key_of_c11;
}

extern "C" fn create_key(place: *mut pthread_key_t, destructor: *const c_void, caller: usize) -> c_int {
    static CREATE_CALL: Behind = Behind::new("pthread_key_create\0");
    type CreateKey = unsafe extern "C" fn(*mut pthread_key_t, *const c_void) -> c_int;
    // SAFETY: the C library's function has this signature, and gets what this one got. It has put a key into the place if it returns 0.
    unsafe {
        let code = mem::transmute::<usize, CreateKey>(CREATE_CALL.find())(place, destructor);
        if code == 0 {
            note_made(*place, KeyMaker { caller, place: place.addr() });
        }
        code
    }
}

/// A key of C11 is one of POSIX.
extern "C" fn create_key_of_c11(place: *mut pthread_key_t, destructor: *const c_void, caller: usize) -> c_int {
    const THRD_ERROR: c_int = 2;
    if create_key(place, destructor, caller) == 0 { 0 } else { THRD_ERROR }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_key_delete(key: pthread_key_t) -> c_int {
    static DELETE_CALL: Behind = Behind::new("pthread_key_delete\0");
    type DeleteKey = unsafe extern "C" fn(pthread_key_t) -> c_int;
    MADE_KEYS.lock().remove(&key);
    handles::remove(KEY_TAG | key as usize);
    // SAFETY: the C library's function has this signature, and gets what this one got.
    unsafe { mem::transmute::<usize, DeleteKey>(DELETE_CALL.find())(key) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn tss_delete(key: pthread_key_t) {
    // SAFETY: as above. As this function in the C library, it ignores that there is no such key.
    unsafe { pthread_key_delete(key) };
}

fn note_made(key: pthread_key_t, maker: KeyMaker) {
    if maker.is_program() {
        handles::add(KEY_TAG | key as usize, "pthread_key_create");
    }
    // Also if it is not: the constructors of the program's libraries run before it is known which these are.
    MADE_KEYS.lock().insert(key, maker);
}

/// Returns the program's keys, with the values that this thread has.
pub fn list_values() -> Vec<(pthread_key_t, usize)> {
    let made = MADE_KEYS.lock();
    let keys = made.iter().filter(|(_, maker)| maker.is_program()).map(|(key, _)| *key);
    // SAFETY: the keys exist.
    keys.map(|key| (key, unsafe { libc::pthread_getspecific(key) }.addr())).collect()
}

/// Sets the values of this thread. Without memory for one, the program has none there, as for a thread without a value.
pub fn restore_values(values: &[(pthread_key_t, usize)]) {
    for (key, value) in values {
        // SAFETY: the program waits, and its memory has what the value points to.
        unsafe { libc::pthread_setspecific(*key, *value as *const c_void) };
    }
}
