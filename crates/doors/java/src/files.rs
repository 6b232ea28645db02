//! The native methods of the class `NativeFiles`: a store's objects as a tree of files, by their paths.

use engine::files::{File, Owner, Setting, Stat};
use jni::objects::{JByteArray, JLongArray, JObject, JObjectArray};
use jni::sys::{jboolean, jint, jlong};
use jni::{EnvUnowned, jni_mangle};

use crate::arrays::{long_array, pairs};
use crate::call::run;
use crate::receipt::kind_number;
use crate::stores::{OpenStore, find};

/// Stands for an attribute that stays as it is.
const KEPT_ATTRIBUTE: jlong = jlong::MIN;
/// The number of names of a directory that are read at once.
const NAMES_PER_PAGE: usize = 1024;

/// The owner of new files.
fn process_owner() -> Owner {
    Owner { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
}

/// Converts attributes to the numbers that `FileStat.java` names in the same order.
fn numbers(stat: &Stat) -> [i64; 7] {
    // A file has at most 2^63 - 1 bytes.
    let (length, owner) = (stat.length as i64, stat.owner);
    let (kind, mode) = (kind_number(stat.kind), stat.mode.into());
    [kind, length, mode, owner.uid.into(), owner.gid.into(), stat.modified, stat.accessed]
}

fn keep(store: &OpenStore, file: File) -> jlong {
    store.open_files.keep(file)
}

#[jni_mangle("io.terrace.NativeFiles")]
pub extern "system" fn open<'local>(
    env: EnvUnowned<'local>,
    _: JObject<'local>,
    store: jlong,
    path: JByteArray<'local>,
) -> jlong {
    run(env, |env| {
        let store = find(store)?;
        Ok(keep(&store, store.files()?.open(&env.convert_byte_array(&path)?)?))
    })
}

#[jni_mangle("io.terrace.NativeFiles")]
pub extern "system" fn create<'local>(
    env: EnvUnowned<'local>,
    _: JObject<'local>,
    store: jlong,
    path: JByteArray<'local>,
    mode: jint,
    is_new: jboolean,
) -> jlong {
    run(env, |env| {
        let (store, path) = (find(store)?, env.convert_byte_array(&path)?);
        Ok(keep(&store, store.files()?.create(&path, mode as u32, process_owner(), is_new)?))
    })
}

#[jni_mangle("io.terrace.NativeFiles")]
pub extern "system" fn stat<'local>(
    env: EnvUnowned<'local>,
    _: JObject<'local>,
    store: jlong,
    path: JByteArray<'local>,
) -> JLongArray<'local> {
    run(env, |env| {
        let stat = find(store)?.files()?.stat(&env.convert_byte_array(&path)?)?;
        long_array(env, &numbers(&stat))
    })
}

#[jni_mangle("io.terrace.NativeFiles")]
pub extern "system" fn list<'local>(
    env: EnvUnowned<'local>,
    _: JObject<'local>,
    store: jlong,
    path: JByteArray<'local>,
) -> JObjectArray<'local> {
    run(env, |env| {
        let (files, path) = (find(store)?.files()?, env.convert_byte_array(&path)?);
        let mut found = Vec::new();
        let mut from = Some(Vec::new());
        while let Some(position) = from {
            let (entries, next) = files.list(&path, &position, NAMES_PER_PAGE)?;
            for entry in entries {
                let below = if path.is_empty() { entry.name.clone() } else { [&path[..], b"/", &entry.name].concat() };
                // An entry that was removed meanwhile is left out.
                found.extend(files.stat(&below).ok().map(|stat| (entry.name, stat)));
            }
            from = next;
        }
        pairs(env, found.iter().map(|(name, stat)| (name.as_slice(), numbers(stat))))
    })
}

#[jni_mangle("io.terrace.NativeFiles")]
pub extern "system" fn make_directory<'local>(
    env: EnvUnowned<'local>,
    _: JObject<'local>,
    store: jlong,
    path: JByteArray<'local>,
    mode: jint,
) {
    run(env, |env| {
        let path = env.convert_byte_array(&path)?;
        Ok(find(store)?.files()?.make_directory(&path, mode as u32, process_owner())?)
    })
}

#[jni_mangle("io.terrace.NativeFiles")]
pub extern "system" fn remove<'local>(
    env: EnvUnowned<'local>,
    _: JObject<'local>,
    store: jlong,
    path: JByteArray<'local>,
) {
    run(env, |env| Ok(find(store)?.files()?.remove(&env.convert_byte_array(&path)?)?))
}

#[jni_mangle("io.terrace.NativeFiles")]
pub extern "system" fn remove_directory<'local>(
    env: EnvUnowned<'local>,
    _: JObject<'local>,
    store: jlong,
    path: JByteArray<'local>,
) {
    run(env, |env| Ok(find(store)?.files()?.remove_directory(&env.convert_byte_array(&path)?)?))
}

#[jni_mangle("io.terrace.NativeFiles")]
pub extern "system" fn rename<'local>(
    env: EnvUnowned<'local>,
    _: JObject<'local>,
    store: jlong,
    from: JByteArray<'local>,
    to: JByteArray<'local>,
    replace: jboolean,
) {
    run(env, |env| {
        let (from, to) = (env.convert_byte_array(&from)?, env.convert_byte_array(&to)?);
        Ok(find(store)?.files()?.rename(&from, &to, replace)?)
    })
}

/// Changes the attributes that are not [`KEPT_ATTRIBUTE`]. Times are nanoseconds since 1970.
#[jni_mangle("io.terrace.NativeFiles")]
pub extern "system" fn set<'local>(
    env: EnvUnowned<'local>,
    _: JObject<'local>,
    store: jlong,
    path: JByteArray<'local>,
    mode: jlong,
    modified: jlong,
    accessed: jlong,
) {
    run(env, |env| {
        let given = |value: jlong| (value != KEPT_ATTRIBUTE).then_some(value);
        let mode = given(mode).map(|mode| mode as u32);
        let setting = Setting { mode, modified: given(modified), accessed: given(accessed), ..Setting::default() };
        find(store)?.files()?.set(&env.convert_byte_array(&path)?, &setting)?;
        Ok(())
    })
}

/// Returns the total and the free bytes.
#[jni_mangle("io.terrace.NativeFiles")]
pub extern "system" fn space<'local>(env: EnvUnowned<'local>, _: JObject<'local>, store: jlong) -> JLongArray<'local> {
    run(env, |env| {
        let space = find(store)?.store.room();
        // Java has no unsigned numbers.
        let bytes = [space.capacity, space.free].map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
        long_array(env, &bytes)
    })
}
