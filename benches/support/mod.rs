//! What the benches share with one another, and in part with the instruction
//! counts in `benches/instructions`.
//!
//! The tests' dependencies switch tokio's `test-util` on, and with it a look at
//! whether the clock is paused at each reading: times that hold a clock read
//! are about 3 % too high here.
//!
//! `cargo bench --all-features` runs all of them in some minutes;
//! `cargo bench --all-features --bench stack -- ready` a part.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "every bench uses its own part, and another package does too"
)]

pub mod call;
pub mod inner;
pub mod policy;
pub mod rules;

use std::hint::black_box;
use std::task::{Context, Waker};
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion};
use tokio::runtime::Runtime;
use tower::Service;

use self::call::call_once;
use self::inner::Inner;

/// What criterion's macros would make, with this crate's settings.
pub fn run(benches: &[fn(&mut Criterion)]) {
    let mut criterion = Criterion::default()
        .without_plots()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    for bench in benches {
        bench(&mut criterion);
    }
    criterion.final_summary();
}

/// A runtime whose timers calls can use while somebody has `enter`ed it. Nobody
/// runs it: no timer of a bench is waited for.
pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime")
}

/// How every single call of a bench must end, or the wrong thing was measured.
#[derive(Clone, Copy)]
pub enum Ends {
    Answered,
    Failed,
}

/// The time of one call of `request`.
pub fn bench_call<S: Service<u64>>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    service: S,
    request: u64,
    ends: Ends,
) {
    bench_call_among(group, name, service, request, ends, || ());
}

/// The same, where `other` is done before every thousandth call.
pub fn bench_call_among<S: Service<u64>>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    mut service: S,
    request: u64,
    ends: Ends,
    other: impl Fn(),
) {
    let mut cx = Context::from_waker(Waker::noop());
    let answered = matches!(ends, Ends::Answered);
    let mut number = 0_u64;
    group.bench_function(name, |b| {
        b.iter(|| {
            if number % 1000 == 0 {
                other();
            }
            number += 1;
            let ended = call_once(&mut service, &mut cx, black_box(request));
            assert_eq!(ended, answered);
        });
    });
}

/// The time of one call of a service that is ready at once, and of one that is
/// pending once, each as `wrap` makes it.
pub fn bench_ready_and_pending<S: Service<u64>>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    wrap: impl Fn(Inner) -> S,
) {
    for (inner, state) in [
        (Inner::ready(), "ready"),
        (Inner::pending_once(), "pending"),
    ] {
        let name = format!("{name}/{state}");
        bench_call(group, &name, wrap(inner), 1, Ends::Answered);
    }
}
