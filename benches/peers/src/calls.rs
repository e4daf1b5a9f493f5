//! Makes calls, on a runtime but not by its scheduler: a call is polled again
//! in place after `Pending`, so that what is measured is the contender and its
//! timers.

use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::pin::pin;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::unconstrained;
use tokio::time::Instant;

use crate::contender::Contender;
use crate::counting::Counts;

/// What a number of calls took.
#[derive(Clone, Copy, Default)]
pub struct Batch {
    pub calls: u64,
    pub answered: u64,
    pub elapsed: Duration,
    /// Whether another program had a share in `elapsed`, as far as is known.
    pub disturbed: bool,
    pub allocations: u64,
    pub bytes: u64,
}

impl Batch {
    pub fn nanoseconds_per_call(&self) -> f64 {
        self.elapsed.as_secs_f64() * 1e9 / self.calls as f64
    }
}

/// One poll of the runtime's. Not constrained: all calls together would eat the
/// budget that tokio gives a poll, and timers would no longer be registered.
pub fn within<T>(runtime: &Runtime, act: impl FnOnce(&mut Context<'_>) -> T) -> T {
    let mut act = Some(act);
    runtime.block_on(unconstrained(poll_fn(|cx| {
        let act = act.take().expect("polled once");
        Poll::Ready(act(cx))
    })))
}

/// A single call, polled until it is over.
pub fn once<C: Contender>(
    contender: &mut C,
    cx: &mut Context<'_>,
    request: u64,
) -> Result<u64, C::Error> {
    contender.ready(cx);
    let mut call = pin!(contender.call(request));
    loop {
        if let Poll::Ready(result) = call.as_mut().poll(cx) {
            return result;
        }
    }
}

/// A single call, polled once; dropped if it is not over then.
pub fn first_poll<C: Contender>(
    contender: &mut C,
    cx: &mut Context<'_>,
    request: u64,
) -> Poll<Result<u64, C::Error>> {
    contender.ready(cx);
    pin!(contender.call(request)).poll(cx)
}

pub fn future_bytes<C: Contender>(contender: &mut C) -> usize {
    size_of_val(&contender.call(0))
}

// Not inlined, so that all callers run the very same code.
#[inline(never)]
fn repeat<C: Contender>(contender: &mut C, cx: &mut Context<'_>, calls: u64) -> u64 {
    let mut answered = 0;
    for request in 0..calls {
        let result = once(contender, cx, black_box(request));
        answered += u64::from(black_box(&result).is_ok());
    }
    answered
}

pub fn batch<C: Contender>(contender: &mut C, cx: &mut Context<'_>, calls: u64) -> Batch {
    let before = Counts::now();
    let started = Instant::now();
    let answered = repeat(contender, cx, calls);
    let elapsed = started.elapsed();
    let after = Counts::now();
    Batch {
        calls,
        answered,
        elapsed,
        disturbed: false,
        allocations: after.allocations - before.allocations,
        bytes: after.bytes - before.bytes,
    }
}

/// So many calls on each of so many threads at the same time, each with a clone;
/// timed from the first start to the last end.
///
/// The threads share the runtime's timers, as the workers of a runtime do. None
/// of them waits for a timer, so that no call pays for waking a third thread.
pub fn batch_on_threads<C: Contender>(
    runtime: &Runtime,
    threads: usize,
    contender: &C,
    calls: u64,
) -> Batch {
    let start = Start::new(threads);
    let work = |mut contender: C| {
        let work = unconstrained(poll_fn(|cx| {
            let before = preemptions();
            start.wait();
            let started = Instant::now();
            let answered = repeat(&mut contender, cx, calls);
            Poll::Ready(Done {
                started,
                ended: Instant::now(),
                answered,
                preempted: preemptions() != before,
            })
        }));
        runtime.handle().block_on(work)
    };
    let done: Vec<Done> = thread::scope(|scope| {
        let spawn = |_| {
            let contender = contender.clone();
            scope.spawn(|| work(contender))
        };
        let threads: Vec<_> = (0..threads).map(spawn).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended.map(|done| done.expect("no call panics")).collect()
    });
    let first = done.iter().map(|done| done.started).min();
    let last_start = done.iter().map(|done| done.started).max();
    let last = done.iter().map(|done| done.ended).max();
    let between = |from: Option<Instant>, to: Option<Instant>| {
        to.zip(from).map_or(Duration::ZERO, |(to, from)| to - from)
    };
    let elapsed = between(first, last);
    // A thread that came late was waiting for a core.
    let late = between(first, last_start) > elapsed / 10;
    Batch {
        calls: calls * threads as u64,
        answered: done.iter().map(|done| done.answered).sum(),
        elapsed,
        disturbed: late || done.iter().any(|done| done.preempted),
        ..Batch::default()
    }
}

/// Lets threads go at one moment, as far as each has a core to run on.
struct Start {
    gathering: Barrier,
    running: AtomicUsize,
    threads: usize,
}

impl Start {
    fn new(threads: usize) -> Self {
        Self {
            gathering: Barrier::new(threads),
            running: AtomicUsize::new(0),
            threads,
        }
    }

    fn wait(&self) {
        self.gathering.wait();
        // The barrier wakes a thread tens of microseconds after the last came.
        // Not for ever: the other may not have a core.
        self.running.fetch_add(1, Ordering::Relaxed);
        let arrived = Instant::now();
        while self.running.load(Ordering::Relaxed) < self.threads
            && arrived.elapsed() < Duration::from_millis(1)
        {
            std::hint::spin_loop();
        }
    }
}

/// What one of several threads did.
struct Done {
    started: Instant,
    ended: Instant,
    answered: u64,
    preempted: bool,
}

/// How often this thread was put off its core, where the system tells. Waiting
/// for a lock is not counted.
fn preemptions() -> Option<String> {
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    let line = status
        .lines()
        .find(|line| line.starts_with("nonvoluntary_ctxt_switches"))?;
    Some(line.to_owned())
}
