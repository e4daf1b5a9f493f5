//! Makes calls, on a runtime but not by its scheduler: a call is polled again
//! in place after `Pending`, so that what is measured is the contender and its
//! timers.

use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::pin::pin;
use std::sync::Barrier;
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
    let start = Barrier::new(threads);
    let work = |mut contender: C| {
        let work = unconstrained(poll_fn(|cx| {
            start.wait();
            let started = Instant::now();
            let answered = repeat(&mut contender, cx, calls);
            Poll::Ready((started, Instant::now(), answered))
        }));
        runtime.handle().block_on(work)
    };
    let done: Vec<_> = thread::scope(|scope| {
        let spawn = |_| {
            let contender = contender.clone();
            scope.spawn(|| work(contender))
        };
        let threads: Vec<_> = (0..threads).map(spawn).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended.map(|done| done.expect("no call panics")).collect()
    });
    let first = done.iter().map(|(started, _, _)| *started).min();
    let last = done.iter().map(|(_, ended, _)| *ended).max();
    Batch {
        calls: calls * threads as u64,
        answered: done.iter().map(|(_, _, answered)| answered).sum(),
        elapsed: last
            .zip(first)
            .map_or(Duration::ZERO, |(last, first)| last - first),
        ..Batch::default()
    }
}
