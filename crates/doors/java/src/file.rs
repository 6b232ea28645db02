//! The native methods of the class `NativeFile`: those of an open file, by the numbers of its store and of itself.

use std::sync::Arc;

use engine::files::File;
use jni::objects::{JByteArray, JByteBuffer, JObject};
use jni::sys::{jint, jlong};
use jni::{EnvUnowned, jni_mangle};

use crate::bytes::JavaBytes;
use crate::call::run;
use crate::store::unsigned;
use crate::stores::find;
use crate::thrown::Thrown;

fn opened(store: jlong, file: jlong) -> Result<Arc<File>, Thrown> {
    find(store)?.open_files.find(file)
}

#[jni_mangle("io.terrace.NativeFile")]
pub extern "system" fn read<'local>(
    env: EnvUnowned<'local>,
    _: JObject<'local>,
    store: jlong,
    file: jlong,
    start: jlong,
    buffer: JByteBuffer<'local>,
    array: JByteArray<'local>,
    offset: jint,
    length: jint,
) -> jint {
    run(env, |env| {
        let (file, start) = (opened(store, file)?, unsigned(start, "the offset")?);
        let bytes = JavaBytes { buffer: &buffer, array: &array, offset, length };
        // No more than the length of the buffer, which is a `jint`.
        bytes.fill(env, |out| file.read_at(start, out)).map(|read| read as jint)
    })
}

#[jni_mangle("io.terrace.NativeFile")]
pub extern "system" fn write<'local>(
    env: EnvUnowned<'local>,
    _: JObject<'local>,
    store: jlong,
    file: jlong,
    start: jlong,
    buffer: JByteBuffer<'local>,
    array: JByteArray<'local>,
    offset: jint,
    length: jint,
) {
    run(env, |env| {
        let (file, start) = (opened(store, file)?, unsigned(start, "the offset")?);
        let bytes = JavaBytes { buffer: &buffer, array: &array, offset, length };
        Ok(file.write_at(start, &bytes.read(env)?)?)
    })
}

#[jni_mangle("io.terrace.NativeFile")]
pub extern "system" fn append<'local>(
    env: EnvUnowned<'local>,
    _: JObject<'local>,
    store: jlong,
    file: jlong,
    buffer: JByteBuffer<'local>,
    array: JByteArray<'local>,
    offset: jint,
    length: jint,
) {
    run(env, |env| {
        let file = opened(store, file)?;
        let bytes = JavaBytes { buffer: &buffer, array: &array, offset, length };
        file.append(&bytes.read(env)?)?;
        Ok(())
    })
}

#[jni_mangle("io.terrace.NativeFile")]
pub extern "system" fn length<'local>(env: EnvUnowned<'local>, _: JObject<'local>, store: jlong, file: jlong) -> jlong {
    // A file has at most 2^63 - 1 bytes.
    run(env, |_| Ok(opened(store, file)?.stat()?.length as jlong))
}

#[jni_mangle("io.terrace.NativeFile")]
pub extern "system" fn set_length<'local>(
    env: EnvUnowned<'local>,
    _: JObject<'local>,
    store: jlong,
    file: jlong,
    length: jlong,
) {
    run(env, |_| Ok(opened(store, file)?.set_len(unsigned(length, "the length")?)?))
}

#[jni_mangle("io.terrace.NativeFile")]
pub extern "system" fn flush<'local>(env: EnvUnowned<'local>, _: JObject<'local>, store: jlong, file: jlong) {
    run(env, |_| Ok(opened(store, file)?.flush()?))
}

#[jni_mangle("io.terrace.NativeFile")]
pub extern "system" fn sync<'local>(env: EnvUnowned<'local>, _: JObject<'local>, store: jlong, file: jlong) {
    run(env, |_| Ok(opened(store, file)?.sync()?))
}

/// Closes a file. Closing it twice, or after its store, does nothing.
#[jni_mangle("io.terrace.NativeFile")]
pub extern "system" fn close<'local>(env: EnvUnowned<'local>, _: JObject<'local>, store: jlong, file: jlong) {
    run(env, |_| {
        let Ok(store) = find(store) else { return Ok(()) };
        // Dropping a file only logs the errors of its buffered bytes.
        store.open_files.take(file).map_or(Ok(()), |file| Ok(file.flush()?))
    })
}
