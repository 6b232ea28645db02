//! Work on several objects at the same time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The number of objects that a job's start or end has in progress. Each needs the buffers of a copy, some MiB.
pub const STAGING_THREADS: usize = 8;

/// Calls `work` with each item, in their order, by at most `threads` threads. Each thread has a state of its own, which it passes to
/// `work`. Returns the states.
pub fn fold_at_once<T: Sync, S: Default + Send>(
    threads: usize,
    items: &[T],
    work: impl Fn(&mut S, usize, &T) + Sync,
) -> Vec<S> {
    let threads = threads.min(items.len());
    let next = AtomicUsize::new(0);
    let work_on_some = || {
        let mut state = S::default();
        loop {
            // Relaxed: each number is given out once, and nothing else depends on it.
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(number) else { return state };
            work(&mut state, number, item);
        }
    };
    if threads <= 1 {
        return vec![work_on_some()];
    }
    thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(work_on_some)).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, S>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        started.into_iter().map(join).collect()
    })
}

/// Calls `work` with each item, in their order, by at most `threads` threads. Returns the results in the order of the items.
pub fn map_at_once<T: Sync, R: Send>(threads: usize, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let note = |done: &mut Vec<(usize, R)>, number: usize, item: &T| done.push((number, work(item)));
    let mut done: Vec<(usize, R)> = fold_at_once(threads, items, note).into_iter().flatten().collect();
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items_and_several_are_in_progress() {
        let all = Barrier::new(8);
        let items: Vec<usize> = (0..24).collect();
        let doubled = map_at_once(8, &items, |item| {
            // Nobody passes before that many are in progress.
            all.wait();
            item * 2
        });
        assert_eq!(doubled, items.iter().map(|item| item * 2).collect::<Vec<_>>());
        assert_eq!(map_at_once(8, &[] as &[u8], |byte| *byte), [0u8; 0]);
    }
}
