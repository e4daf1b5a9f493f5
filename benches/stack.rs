//! One call through the whole stack, with everything switched on.

mod support;

use std::task::{Context, Waker};

use criterion::Criterion;
use steadfast::{Backoff, BreakerConfig, Policy, RetryBudget};

use support::call::call_once;
use support::inner::{FAILING, Inner};
use support::policy::{breaker, fail, policy, settings, stack};
use support::{Ends, bench_call, bench_ready_and_pending, runtime};

fn main() {
    support::run(&[calls]);
}

fn calls(c: &mut Criterion) {
    let runtime = runtime();
    let _context = runtime.enter();
    let mut group = c.benchmark_group("stack");
    bench_ready_and_pending(&mut group, "bare service", |inner| inner);
    bench_ready_and_pending(&mut group, "stack", |inner| stack(&policy(), inner));

    // The failures are told to the breaker, not called for: a failing call
    // would be retried, and it is the ready ones that are timed.
    let failing = policy();
    fail(&failing, 1);
    let mut service = stack(&failing, Inner::ready());
    let mut cx = Context::from_waker(Waker::noop());
    let mut number = 0_u64;
    group.bench_function("stack/ready, 0.1 % failures", |b| {
        b.iter(|| {
            number += 1;
            if number % 1000 == 0 {
                fail(&failing, 1);
            }
            assert!(call_once(&mut service, &mut cx, number));
        });
    });

    let open = policy();
    fail(&open, 20);
    let refused = stack(&open, Inner::out_of_reach());
    bench_call(&mut group, "stack/refused", refused, 1, Ends::Failed);

    let service = stack(&impatient(breaker(0.9)), Inner::failing_every_other());
    bench_call(&mut group, "stack/one retry", service, 1, Ends::Answered);

    let never_enough = breaker(1.0).min_calls(u32::MAX);
    let service = stack(&impatient(never_enough), Inner::ready());
    bench_call(
        &mut group,
        "stack/all attempts failed",
        service,
        FAILING,
        Ends::Failed,
    );
}

/// No waits, and a budget that always pays.
fn impatient(breaker: BreakerConfig) -> Policy {
    settings()
        .backoff(Backoff::none())
        .retry_budget(RetryBudget::ratio(1.0).cap(1e9).opening_balance(1e9))
        .breaker(breaker)
        .build()
        .expect("a valid policy")
}
