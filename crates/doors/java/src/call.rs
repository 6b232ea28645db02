//! Wraps calls from Java: a failure or a panic becomes an exception.

use std::any::Any;

use jni::errors::{ErrorPolicy, Result as JniResult};
use jni::strings::{JNIStr, JNIString};
use jni::{Env, EnvUnowned};

use crate::thrown::{RUNTIME_EXCEPTION_CLASS, Thrown};

/// Runs a call. If it fails, the exception is pending and the value is never seen.
pub fn run<'local, T: Default>(
    mut env: EnvUnowned<'local>,
    call: impl FnOnce(&mut Env<'local>) -> Result<T, Thrown>,
) -> T {
    env.with_env(call).resolve::<ThrowFailure>()
}

struct ThrowFailure;

impl<T: Default> ErrorPolicy<T, Thrown> for ThrowFailure {
    type Captures<'unowned: 'native, 'native> = ();

    fn on_error<'unowned: 'native, 'native>(env: &mut Env<'unowned>, _: &mut (), failure: Thrown) -> JniResult<T> {
        throw(env, failure.class(), &failure.to_string());
        Ok(T::default())
    }

    fn on_panic<'unowned: 'native, 'native>(
        env: &mut Env<'unowned>,
        _: &mut (),
        _: Box<dyn Any + Send>,
    ) -> JniResult<T> {
        throw(env, RUNTIME_EXCEPTION_CLASS, "a call panicked; this is a bug of Terrace");
        Ok(T::default())
    }
}

/// Throws an exception, unless Java has thrown one during the call. If the class cannot be loaded, a `RuntimeException` has the message.
fn throw(env: &mut Env<'_>, class: &JNIStr, message: &str) {
    let message = JNIString::from(message);
    for class in [class, RUNTIME_EXCEPTION_CLASS] {
        if env.exception_check() {
            return;
        }
        // It always returns an error: the one that stands for a thrown exception, or its own, for which the next class is tried.
        let _ = env.throw_new(class, &message);
    }
}
