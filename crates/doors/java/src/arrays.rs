//! Makes arrays of Java.

use jni::Env;
use jni::objects::{JByteArray, JLongArray, JObject, JObjectArray};

use crate::bytes::signed;
use crate::thrown::Thrown;

/// Makes an array of numbers.
pub fn long_array<'local>(env: &mut Env<'local>, numbers: &[i64]) -> Result<JLongArray<'local>, Thrown> {
    let array = JLongArray::new(env, numbers.len())?;
    array.set_region(env, 0, numbers)?;
    Ok(array)
}

/// Makes an array that has the bytes and the numbers of each pair, one after the other.
pub fn pairs<'local, const COUNT: usize>(
    env: &mut Env<'local>,
    pairs: impl ExactSizeIterator<Item = (impl AsRef<[u8]>, [i64; COUNT])>,
) -> Result<JObjectArray<'local>, Thrown> {
    let array = JObjectArray::<JObject<'_>>::new(env, pairs.len() * 2, JObject::null())?;
    for (at, (bytes, numbers)) in pairs.enumerate() {
        let bytes = bytes.as_ref();
        let bytes_array = JByteArray::new(env, bytes.len())?;
        bytes_array.set_region(env, 0, signed(bytes))?;
        let numbers_array = long_array(env, &numbers)?;
        array.set_element(env, at * 2, &bytes_array)?;
        array.set_element(env, at * 2 + 1, &numbers_array)?;
        // The table of local references is short.
        env.delete_local_ref(bytes_array);
        env.delete_local_ref(numbers_array);
    }
    Ok(array)
}
