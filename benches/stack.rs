//! One call through the whole stack, with everything switched on.

mod support;

use criterion::Criterion;
use steadfast::{Backoff, BreakerConfig, Policy, RetryBudget};
use tower::ServiceExt;

use support::inner::{FAILING, Inner};
use support::policy::{breaker, fail, policy, settings, stack};
use support::{Ends, bench_call, bench_call_among, bench_ready_and_pending, runtime};

fn main() {
    support::run(&[calls]);
}

fn calls(c: &mut Criterion) {
    let runtime = runtime();
    let _context = runtime.enter();
    let mut group = c.benchmark_group("call");
    bench_ready_and_pending(&mut group, "bare service", |inner| inner);
    bench_ready_and_pending(&mut group, "stack", |inner| stack(&policy(), inner));

    // The failures are told to the breaker, not called for: a failing call
    // would be retried, and it is the ready ones that are timed.
    let failing = policy();
    bench_call_among(
        &mut group,
        "stack/ready, 0.1 % failures",
        stack(&failing, Inner::ready()),
        1,
        Ends::Answered,
        || fail(&failing, 1),
    );

    let open = policy();
    fail(&open, 20);
    let refused = stack(&open, Inner::out_of_reach());
    bench_call(&mut group, "stack/refused", refused, 1, Ends::Failed);

    let service = stack(&impatient(breaker(0.9)), Inner::failing_every_other());
    bench_call(&mut group, "stack/one retry", service, 1, Ends::Answered);

    // A success among the failures keeps the breaker closed.
    let policy = impatient(breaker(1.0));
    succeed(&policy);
    let failed = runtime.block_on(stack(&policy, Inner::ready()).oneshot(FAILING));
    assert_eq!(failed.map_err(|error| error.attempts()), Err(3));
    bench_call_among(
        &mut group,
        "stack/all attempts failed",
        stack(&policy, Inner::ready()),
        FAILING,
        Ends::Failed,
        || succeed(&policy),
    );
}

fn succeed(policy: &Policy) {
    let breaker = policy.breaker().expect("the policy has a breaker");
    breaker.admit().expect("closed").success();
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
