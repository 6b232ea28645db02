//! [`CallLoop`]: a thread that makes calls until it is stopped, and times them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rustix_futex_sync::Mutex;

/// The pause between two calls, so that the callers leave the processors to others.
const CALL_PAUSE: Duration = Duration::from_millis(5);

/// A call that has returned.
#[derive(Clone, Copy)]
pub struct TimedCall {
    pub begin: Instant,
    pub end: Instant,
}

/// A thread that makes the same kind of call over and over.
pub struct CallLoop {
    calls: Arc<Mutex<Vec<TimedCall>>>,
    is_stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl CallLoop {
    /// Begins. `call` gets the number of the call.
    pub fn start(mut call: impl FnMut(u64) -> Result<()> + Send + 'static) -> CallLoop {
        let (calls, is_stopping) = (Arc::<Mutex<Vec<TimedCall>>>::default(), Arc::<AtomicBool>::default());
        let (own_calls, own_stop) = (calls.clone(), is_stopping.clone());
        let run = move || {
            for number in 0.. {
                // Relaxed: nothing else depends on the flag.
                if own_stop.load(Ordering::Relaxed) {
                    break;
                }
                let begin = Instant::now();
                call(number)?;
                own_calls.lock().push(TimedCall { begin, end: Instant::now() });
                thread::sleep(CALL_PAUSE);
            }
            Ok(())
        };
        CallLoop { calls, is_stopping, thread: Some(thread::spawn(run)) }
    }

    /// Returns the end of the first call that has begun after this moment.
    pub fn first_after(&self, moment: Instant) -> Option<Instant> {
        self.calls.lock().iter().find(|call| call.begin >= moment).map(|call| call.end)
    }

    /// Fails if a call has failed, which has ended the thread.
    pub fn check(&mut self) -> Result<()> {
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished) { self.join() } else { Ok(()) }
    }

    /// Ends the thread, and returns its calls.
    pub fn stop(mut self) -> Result<Vec<TimedCall>> {
        self.join()?;
        Ok(std::mem::take(&mut *self.calls.lock()))
    }

    fn join(&mut self) -> Result<()> {
        self.is_stopping.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(done)) => done,
            Some(Err(_)) => bail!("a thread has panicked"),
            None => Ok(()),
        }
    }
}

impl Drop for CallLoop {
    fn drop(&mut self) {
        // The store of its calls must be closed before the nodes end. After an error, the caller reports that one.
        let _ = self.join();
    }
}

/// Returns the seconds of the longest call that was under way between these moments.
pub fn longest(calls: &[TimedCall], from: Instant, to: Instant) -> f64 {
    let within = calls.iter().filter(|call| call.end > from && call.begin < to);
    within.map(|call| call.end.duration_since(call.begin).as_secs_f64()).fold(0.0, f64::max)
}
