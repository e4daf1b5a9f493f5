//! Calls per second on one thread and on two. Each thread has a service of its
//! own of one policy; beside it stand the bare service, and tower's `Timeout`
//! alone, which shows what tokio's timer leaves of the second thread.
//!
//! Two threads need two idle cores, or the figures say nothing.

mod support;

use std::sync::Barrier;
use std::task::{Context, Waker};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput};
use tokio::runtime::{Handle, Runtime};
use tokio::time::Instant;
use tower::Service;
use tower::timeout::Timeout;

use support::call::call_once;
use support::inner::Inner;
use support::policy::{policy, stack};
use support::runtime;

const ATTEMPT: Duration = Duration::from_secs(10);

fn main() {
    support::run(&[threads]);
}

fn threads(c: &mut Criterion) {
    let runtime = runtime();
    let policy = policy();
    for (state, inner) in [
        ("ready", Inner::ready()),
        ("pending", Inner::pending_once()),
    ] {
        let mut group = c.benchmark_group(format!("threads/{state}"));
        bench(&mut group, "bare service", &runtime, || inner);
        bench(&mut group, "tower's timeout", &runtime, || {
            Timeout::new(inner, ATTEMPT)
        });
        bench(&mut group, "stack", &runtime, || stack(&policy, inner));
    }
}

fn bench<S: Service<u64>>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    runtime: &Runtime,
    service: impl Fn() -> S + Sync,
) {
    for threads in [1, 2] {
        group.throughput(Throughput::Elements(threads as u64));
        group.bench_function(BenchmarkId::new(name, threads), |b| {
            b.iter_custom(|calls| elapsed(runtime.handle(), threads, calls, &service));
        });
    }
}

/// How long the slowest of the threads takes for so many calls, all of them
/// under way at once.
fn elapsed<S: Service<u64>>(
    runtime: &Handle,
    threads: usize,
    calls: u64,
    service: &(impl Fn() -> S + Sync),
) -> Duration {
    let start = Barrier::new(threads);
    let run = || {
        let _context = runtime.enter();
        let mut cx = Context::from_waker(Waker::noop());
        let mut service = service();
        start.wait();
        let begun = Instant::now();
        for request in 0..calls {
            assert!(call_once(&mut service, &mut cx, request));
        }
        begun.elapsed()
    };
    thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let ran = handles.into_iter().map(ScopedJoinHandle::join);
        ran.map(|ran| ran.expect("every call was answered"))
            .max()
            .unwrap_or_default()
    })
}
