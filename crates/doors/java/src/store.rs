//! The native methods of the class `Native`. Those of an open store get its number, and the object whose end the cleaner waits for.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use engine::{Config, Error, Receipt, Store, key};
use jni::objects::{JByteArray, JByteBuffer, JClass, JLongArray, JObject, JObjectArray, JString};
use jni::sys::{jint, jlong};
use jni::{Env, EnvUnowned, jni_mangle};

use crate::arrays::{long_array, pairs};
use crate::bytes::JavaBytes;
use crate::call::run;
use crate::options::{ack, options};
use crate::receipt::{of_numbers, of_object, to_numbers};
use crate::stores::{OPEN_STORES, OpenStore, find};
use crate::thrown::Thrown;

type Settings<'local> = JObjectArray<'local, JString<'local>>;

fn path(env: &Env<'_>, bytes: &JByteArray<'_>) -> Result<PathBuf, Thrown> {
    Ok(OsString::from_vec(env.convert_byte_array(bytes)?).into())
}

fn receipt<'local>(env: &mut Env<'local>, store: &Store, receipt: &Receipt) -> Result<JLongArray<'local>, Thrown> {
    long_array(env, &to_numbers(receipt, store.id()))
}

/// Returns an offset or a length; Java has no unsigned numbers.
pub fn unsigned(number: jlong, noun: &str) -> Result<u64, Thrown> {
    u64::try_from(number).map_err(|_| Thrown::Invalid(format!("{noun}: {number} is negative")))
}

#[jni_mangle("io.terrace.Native")]
pub extern "system" fn init<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    directory: JByteArray<'local>,
    configuration: JByteArray<'local>,
) {
    run(env, |env| {
        let directory = path(env, &directory)?;
        Store::check_place(&directory)?;
        let context = |verb: &str, path: &Path| format!("{verb} {}", path.display());
        let config = match configuration.is_null() {
            true => {
                let found = Config::discover(&directory);
                found.map_err(|cause| Error::Io { context: context("finding tiers for", &directory), cause })?.0
            }
            false => {
                let file = path(env, &configuration)?;
                let text = fs::read_to_string(&file);
                let text = text.map_err(|cause| Error::Io { context: context("reading", &file), cause })?;
                Config::parse(&text, &file.display().to_string())?
            }
        };
        Ok(Store::init(&directory, &config)?.close()?)
    })
}

#[jni_mangle("io.terrace.Native")]
pub extern "system" fn open<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    directory: JByteArray<'local>,
    settings: Settings<'local>,
) -> jlong {
    run(env, |env| {
        let application = options(env, &settings)?;
        let store = Store::open(&path(env, &directory)?)?;
        Ok(OPEN_STORES.keep(OpenStore::new(store, application)))
    })
}

/// Closes a store, whatever becomes of the bytes that its open files have buffered. Another thread may still be in a call with it; the last
/// reference closes it.
fn end(store: jlong, close: impl FnOnce(Store) -> Result<(), Error>) -> Result<(), Thrown> {
    let Some(taken) = OPEN_STORES.take(store) else { return Ok(()) };
    let flushed = taken.flush();
    close(taken.store.clone())?;
    flushed
}

#[jni_mangle("io.terrace.Native")]
pub extern "system" fn close<'local>(env: EnvUnowned<'local>, _: JObject<'local>, store: jlong) {
    run(env, |_| end(store, Store::close))
}

/// Closes a store that the program has lost, without a wait for pending replicas.
#[jni_mangle("io.terrace.Native")]
pub extern "system" fn abandon<'local>(env: EnvUnowned<'local>, _: JClass<'local>, store: jlong) {
    run(env, |_| end(store, Store::close_at_once))
}

#[jni_mangle("io.terrace.Native")]
pub extern "system" fn put<'local>(
    env: EnvUnowned<'local>,
    _: JObject<'local>,
    store: jlong,
    key: JByteArray<'local>,
    buffer: JByteBuffer<'local>,
    array: JByteArray<'local>,
    offset: jint,
    length: jint,
    settings: Settings<'local>,
) -> JLongArray<'local> {
    run(env, |env| {
        let (open, key) = (find(store)?, env.convert_byte_array(&key)?);
        let options = options(env, &settings)?.over(&open.application);
        let bytes = JavaBytes { buffer: &buffer, array: &array, offset, length }.read(env)?;
        let written = open.store.put_bytes(&key, &bytes, &options)?;
        receipt(env, &open.store, &written)
    })
}

#[jni_mangle("io.terrace.Native")]
pub extern "system" fn write_at<'local>(
    env: EnvUnowned<'local>,
    _: JObject<'local>,
    store: jlong,
    key: JByteArray<'local>,
    start: jlong,
    buffer: JByteBuffer<'local>,
    array: JByteArray<'local>,
    offset: jint,
    length: jint,
    settings: Settings<'local>,
) -> JLongArray<'local> {
    run(env, |env| {
        let (open, key, start) = (find(store)?, env.convert_byte_array(&key)?, unsigned(start, "the offset")?);
        let options = options(env, &settings)?.over(&open.application);
        let bytes = JavaBytes { buffer: &buffer, array: &array, offset, length }.read(env)?;
        let written = open.store.write_at(&key, start, &bytes, &options)?;
        receipt(env, &open.store, &written)
    })
}

#[jni_mangle("io.terrace.Native")]
pub extern "system" fn append<'local>(
    env: EnvUnowned<'local>,
    _: JObject<'local>,
    store: jlong,
    key: JByteArray<'local>,
    buffer: JByteBuffer<'local>,
    array: JByteArray<'local>,
    offset: jint,
    length: jint,
    settings: Settings<'local>,
) -> JLongArray<'local> {
    run(env, |env| {
        let (open, key) = (find(store)?, env.convert_byte_array(&key)?);
        let options = options(env, &settings)?.over(&open.application);
        let bytes = JavaBytes { buffer: &buffer, array: &array, offset, length }.read(env)?;
        let appended = open.store.append(&key, &bytes, &options)?;
        receipt(env, &open.store, &appended.receipt)
    })
}

/// Returns a range of an object, to its end if `end` is negative.
#[jni_mangle("io.terrace.Native")]
pub extern "system" fn get<'local>(
    env: EnvUnowned<'local>,
    _: JObject<'local>,
    store: jlong,
    key: JByteArray<'local>,
    start: jlong,
    end: jlong,
) -> JByteArray<'local> {
    run(env, |env| {
        let (open, key, start) = (find(store)?, env.convert_byte_array(&key)?, unsigned(start, "the start")?);
        let mut too_long = None;
        let room = |_: &engine::Object, length: usize| {
            too_long = jint::try_from(length).is_err().then_some(length as u64);
            vec![0; if too_long.is_some() { 0 } else { length }]
        };
        let bytes = open.store.get_into(&key, start, u64::try_from(end).ok(), room)?;
        match too_long {
            Some(length) => Err(Thrown::TooLong(length)),
            None => Ok(env.byte_array_from_slice(&bytes)?),
        }
    })
}

#[jni_mangle("io.terrace.Native")]
pub extern "system" fn read<'local>(
    env: EnvUnowned<'local>,
    _: JObject<'local>,
    store: jlong,
    key: JByteArray<'local>,
    start: jlong,
    buffer: JByteBuffer<'local>,
    array: JByteArray<'local>,
    offset: jint,
    length: jint,
) -> jint {
    run(env, |env| {
        let (open, key, start) = (find(store)?, env.convert_byte_array(&key)?, unsigned(start, "the offset")?);
        let bytes = JavaBytes { buffer: &buffer, array: &array, offset, length };
        // At most `length`, which is such a number.
        Ok(bytes.fill(env, |out| open.store.read_at(&key, start, out))? as jint)
    })
}

#[jni_mangle("io.terrace.Native")]
pub extern "system" fn stat<'local>(
    env: EnvUnowned<'local>,
    _: JObject<'local>,
    store: jlong,
    key: JByteArray<'local>,
) -> JLongArray<'local> {
    run(env, |env| {
        let object = find(store)?.store.stat(&env.convert_byte_array(&key)?)?;
        long_array(env, &of_object(&object))
    })
}

/// Returns keys and descriptions, by turns.
#[jni_mangle("io.terrace.Native")]
pub extern "system" fn list<'local>(
    env: EnvUnowned<'local>,
    _: JObject<'local>,
    store: jlong,
    prefix: JByteArray<'local>,
    after: JByteArray<'local>,
    limit: jint,
) -> JObjectArray<'local> {
    run(env, |env| {
        let (open, prefix) = (find(store)?, env.convert_byte_array(&prefix)?);
        let mut after = match after.is_null() {
            true => None,
            false => Some(env.convert_byte_array(&after)?),
        };
        let limit = usize::try_from(limit).map_err(|_| Thrown::Invalid(format!("the limit: {limit} is negative")))?;
        // The store's own objects are listed only if the prefix asks for them.
        let is_own = |key: &[u8]| key::below(key, key::RESERVED_FOLDER);
        let mut found = Vec::new();
        while found.len() < limit {
            let page = open.store.list(&prefix, after.as_deref(), limit - found.len())?;
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            found.extend(page.into_iter().filter(|(key, _)| is_own(&prefix) || !is_own(key)));
        }
        pairs(env, found.iter().map(|(key, object)| (key, of_object(object))))
    })
}

#[jni_mangle("io.terrace.Native")]
pub extern "system" fn remove<'local>(
    env: EnvUnowned<'local>,
    _: JObject<'local>,
    store: jlong,
    key: JByteArray<'local>,
) {
    run(env, |env| Ok(find(store)?.store.remove(&env.convert_byte_array(&key)?)?))
}

#[jni_mangle("io.terrace.Native")]
pub extern "system" fn rename<'local>(
    env: EnvUnowned<'local>,
    _: JObject<'local>,
    store: jlong,
    from: JByteArray<'local>,
    to: JByteArray<'local>,
) {
    run(env, |env| Ok(find(store)?.store.rename(&env.convert_byte_array(&from)?, &env.convert_byte_array(&to)?)?))
}

#[jni_mangle("io.terrace.Native")]
pub extern "system" fn copy<'local>(
    env: EnvUnowned<'local>,
    _: JObject<'local>,
    store: jlong,
    from: JByteArray<'local>,
    to: JByteArray<'local>,
) {
    run(env, |env| Ok(find(store)?.store.copy(&env.convert_byte_array(&from)?, &env.convert_byte_array(&to)?)?))
}

/// Waits for a level, and returns the receipt as it is then.
#[jni_mangle("io.terrace.Native")]
pub extern "system" fn await_level<'local>(
    env: EnvUnowned<'local>,
    _: JObject<'local>,
    store: jlong,
    numbers: JLongArray<'local>,
    level: JString<'local>,
) -> JLongArray<'local> {
    run(env, |env| {
        let (open, mut known) = (find(store)?, [0; _]);
        numbers.get_region(env, 0, &mut known)?;
        let mut known = of_numbers(known, open.store.id())?;
        open.store.wait(&mut known, ack(&level.try_to_string(env)?)?)?;
        receipt(env, &open.store, &known)
    })
}

#[jni_mangle("io.terrace.Native")]
pub extern "system" fn sync<'local>(env: EnvUnowned<'local>, _: JObject<'local>, store: jlong) {
    run(env, |_| Ok(find(store)?.store.sync()?))
}

#[jni_mangle("io.terrace.Native")]
pub extern "system" fn locate<'local>(
    env: EnvUnowned<'local>,
    _: JObject<'local>,
    store: jlong,
    key: JByteArray<'local>,
) -> JString<'local> {
    run(env, |env| {
        let location = find(store)?.store.locate(&env.convert_byte_array(&key)?)?;
        let text = serde_json::to_string(&location).map_err(|error| Thrown::Invalid(error.to_string()))?;
        Ok(JString::from_str(env, text)?)
    })
}
