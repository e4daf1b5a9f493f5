//! What the models of interleavings have in common.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loom::model::Builder;
use loom::sync::Mutex;
use loom::sync::atomic::AtomicBool;
use loom::thread;
use tokio::time::Instant;

/// Runs `model` in every interleaving that a few preemptions make possible:
/// two, or as many as `LOOM_MAX_PREEMPTIONS` says. Says how many there were.
pub(crate) fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    let preemptions = *builder.preemption_bound.get_or_insert(2);
    assert!(preemptions >= 2, "too few to prove anything");
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let started = Instant::now();
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let runs = runs.load(Ordering::Relaxed);
    assert!(runs > 1, "nothing was interleaved");
    let name = thread_name();
    let seconds = started.elapsed().as_secs_f64();
    eprintln!("model {name}: {runs} interleavings, {preemptions} preemptions, {seconds:.1} s");
}

fn thread_name() -> String {
    let current = std::thread::current();
    let name = current.name().unwrap_or("of no name");
    name.trim_start_matches("steadfast::").to_owned()
}

/// Two threads at once, where three would take too long.
pub(crate) fn both<S: 'static, A: 'static, B>(
    shared: &Arc<S>,
    a: impl FnOnce(&S) -> A + 'static,
    b: impl FnOnce(&S) -> B,
) -> (A, B) {
    let for_a = Arc::clone(shared);
    let a = thread::spawn(move || a(&for_a));
    let b = b(shared);
    (a.join().unwrap(), b)
}

/// Three threads at once, on what they share.
pub(crate) fn together<S: 'static, A: 'static, B: 'static, C>(
    shared: &Arc<S>,
    a: impl FnOnce(&S) -> A + 'static,
    b: impl FnOnce(&S) -> B + 'static,
    c: impl FnOnce(&S) -> C,
) -> (A, B, C) {
    let (for_a, for_b) = (Arc::clone(shared), Arc::clone(shared));
    let a = thread::spawn(move || a(&for_a));
    let b = thread::spawn(move || b(&for_b));
    let c = c(shared);
    (a.join().unwrap(), b.join().unwrap(), c)
}

/// A number for this thread, the same in each interleaving.
pub(crate) fn this_thread() -> usize {
    // The only way to tell them apart that is the same in each run.
    let id = format!("{:?}", thread::current().id());
    let digits: String = id.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

/// The standard library's, with what it promises told to the models: one value
/// is made, and whoever sees it sees all that was done to make it.
#[derive(Debug)]
pub(crate) struct OnceLock<T> {
    is_made: AtomicBool,
    making: Mutex<()>,
    value: std::sync::OnceLock<T>,
}

impl<T> OnceLock<T> {
    pub(crate) fn new() -> Self {
        Self {
            is_made: AtomicBool::new(false),
            making: Mutex::new(()),
            value: std::sync::OnceLock::new(),
        }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        let is_made = self.is_made.load(loom::sync::atomic::Ordering::Acquire);
        is_made.then(|| self.value.get().unwrap())
    }

    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        if let Some(value) = self.get() {
            return value;
        }
        let making = self.making.lock().unwrap();
        if self.value.get().is_none() {
            self.value.set(make()).ok();
            self.is_made
                .store(true, loom::sync::atomic::Ordering::Release);
        }
        drop(making);
        self.value.get().unwrap()
    }
}

/// How many hold something at the moment, and that these are never too many.
/// Not a part of the model: it adds no interleavings.
#[derive(Debug, Default)]
pub(crate) struct Holders(AtomicUsize);

impl Holders {
    pub(crate) fn come(&self, most: usize) {
        let holders = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        assert!(holders <= most, "{holders} at once, {most} allowed");
    }

    pub(crate) fn go(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
