//! Shared settings and state, with a reference count per thread.
//!
//! Every call holds a handle while it runs. With one count for all, two
//! threads that do nothing else but take and drop the handle slow each other
//! down to less than a third of one thread's speed; so there are several
//! counts, each on a cache line of its own, and a thread keeps to one of them.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The owner's side: cloned with the service, not with the call.
#[derive(Debug)]
pub(crate) struct Sharded<T> {
    root: Arc<Root<T>>,
}

#[derive(Debug)]
struct Root<T> {
    value: Arc<T>,
    shards: Box<[Arc<Shard<T>>]>,
}

/// Aligned so that two counts share neither a line nor a prefetched pair.
#[derive(Debug)]
#[repr(align(128))]
struct Shard<T> {
    value: Arc<T>,
}

/// The call's side.
#[derive(Debug)]
pub(crate) struct Handle<T> {
    shard: Arc<Shard<T>>,
}

impl<T> Sharded<T> {
    pub(crate) fn new(value: T) -> Self {
        let value = Arc::new(value);
        let shards = parallelism().next_power_of_two().clamp(2, 64);
        let shards = (0..shards)
            .map(|_| {
                let value = Arc::clone(&value);
                Arc::new(Shard { value })
            })
            .collect();
        Self {
            root: Arc::new(Root { value, shards }),
        }
    }

    /// How many handles there are; others may come and go meanwhile.
    #[cfg(any(feature = "serde", test))]
    pub(crate) fn handles(&self) -> usize {
        let shards = self.root.shards.iter();
        // One count of each is its place in the list.
        shards.map(|shard| Arc::strong_count(shard) - 1).sum()
    }

    /// A handle that outlives this; one reference count, this thread's.
    pub(crate) fn handle(&self) -> Handle<T> {
        let shards = &self.root.shards;
        let shard = Arc::clone(&shards[this_thread() & (shards.len() - 1)]);
        Handle { shard }
    }
}

impl<T> Clone for Sharded<T> {
    fn clone(&self) -> Self {
        Self {
            root: Arc::clone(&self.root),
        }
    }
}

impl<T> Deref for Sharded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.root.value
    }
}

impl<T> Deref for Handle<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.shard.value
    }
}

/// How many threads can run at once. Asked for once: the answer may stand in
/// files, and a call may be what asks.
pub(crate) fn parallelism() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    let ask = || std::thread::available_parallelism().map_or(1, usize::from);
    *THREADS.get_or_init(ask)
}

/// A number for this thread; consecutive threads get consecutive ones.
#[inline]
pub(crate) fn this_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    let number = NUMBER.get();
    if number != usize::MAX {
        return number;
    }
    let number = NEXT.fetch_add(1, Ordering::Relaxed) & (usize::MAX >> 1);
    NUMBER.set(number);
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_outlives_the_owner_and_reaches_the_same_value() {
        let shared = Sharded::new(AtomicUsize::new(1));
        let handle = shared.handle();
        let elsewhere = std::thread::spawn({
            let shared = shared.clone();
            move || shared.handle()
        })
        .join()
        .unwrap();
        shared.store(7, Ordering::Relaxed);
        assert_eq!(shared.handles(), 2);
        drop(shared);
        assert_eq!(handle.load(Ordering::Relaxed), 7);
        assert_eq!(elsewhere.load(Ordering::Relaxed), 7);
    }
}
