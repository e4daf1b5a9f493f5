//! One call through single stages. Those below the loop cannot be called
//! without one: `attempt` is a loop of one attempt, and each of the others adds
//! to it, or to the line that its name begins with.

mod support;

use std::time::Duration;

use criterion::Criterion;
use steadfast::attempt::AttemptLayer;
use steadfast::breaker::BreakerLayer;
use steadfast::deadline::DeadlineLayer;
use steadfast::fallback;
use steadfast::retry::RetryLayer;
use steadfast::{Breaker, Error, RetryBudget, ServiceBuilderExt};
use tower::{ServiceBuilder, ServiceExt};

use support::inner::Inner;
use support::policy::{breaker, fail, policy};
use support::{Ends, bench_call, bench_ready_and_pending, runtime};

fn main() {
    support::run(&[stages, fallbacks]);
}

fn stages(c: &mut Criterion) {
    let runtime = runtime();
    let _context = runtime.enter();
    let mut group = c.benchmark_group("stages");
    let timed = || AttemptLayer::new().timeout(Duration::from_secs(10));

    bench_ready_and_pending(&mut group, "attempt", |inner| {
        ServiceBuilder::new()
            .layer(once())
            .layer(AttemptLayer::new())
            .service(inner)
    });
    bench_ready_and_pending(&mut group, "attempt, timeout", |inner| {
        ServiceBuilder::new()
            .layer(once())
            .layer(timed())
            .service(inner)
    });
    bench_ready_and_pending(&mut group, "attempt, breaker", |inner| {
        let breaker = Breaker::new("inventory", breaker(0.5)).expect("valid settings");
        ServiceBuilder::new()
            .layer(once())
            .layer(BreakerLayer::new(breaker))
            .layer(AttemptLayer::new())
            .service(inner)
    });
    bench_ready_and_pending(&mut group, "attempt, deadline", |inner| {
        ServiceBuilder::new()
            .layer(DeadlineLayer::new(Duration::from_secs(30)))
            .layer(once())
            .layer(AttemptLayer::new())
            .service(inner)
    });
    bench_ready_and_pending(&mut group, "retry, budget", |inner| {
        let retry = RetryLayer::builder(3).retry_budget(RetryBudget::ratio(0.1));
        ServiceBuilder::new()
            .layer(retry.build().expect("valid settings"))
            .layer(AttemptLayer::new())
            .service(inner)
    });
}

fn fallbacks(c: &mut Criterion) {
    let runtime = runtime();
    let _context = runtime.enter();
    let mut group = c.benchmark_group("stages");

    bench_ready_and_pending(&mut group, "fallback", |inner| {
        ServiceBuilder::new()
            .fallback(fallback::value(0))
            .service(inner.map_err(|fault| -> Error { unreachable!("{fault}") }))
    });

    let open = policy();
    fail(&open, 20);
    let served = ServiceBuilder::new()
        .fallback(fallback::value(0))
        .resilience(open)
        .service(Inner::out_of_reach());
    bench_call(
        &mut group,
        "fallback/serves for a refusing stack",
        served,
        1,
        Ends::Answered,
    );
}

fn once() -> RetryLayer {
    RetryLayer::builder(1).build().expect("valid settings")
}
