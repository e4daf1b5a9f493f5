//! Calls through the whole stack, and of the bare service beside it.

use steadfast::{Backoff, PolicyBuilder, RetryBudget};
use tower::Service;

use crate::Workload;
use crate::inner::Inner;
use crate::policy::{breaker, fail, policy, settings, stack};
use crate::repeat::{self, Expect};

pub const WORKLOADS: &[Workload] = &[
    ("bare", |calls| make(calls, Inner::ready(), Expect::All)),
    ("bare-pending", |calls| {
        make(calls, Inner::pending_once(), Expect::All);
    }),
    ("ready", |calls| {
        make(calls, stack(&policy(), Inner::ready()), Expect::All);
    }),
    ("ready-after-failure", ready_after_failure),
    ("ready-0.1%-failures", ready_with_failures),
    ("ready-deposit", ready_with_deposit),
    ("pending", |calls| {
        make(calls, stack(&policy(), Inner::pending_once()), Expect::All);
    }),
    ("refused", refused),
    ("retry-once", |calls| {
        retry_once(calls, |builder| {
            builder.retry_budget(RetryBudget::ratio(1.0))
        });
    }),
    ("retry-once-no-budget", |calls| {
        retry_once(calls, PolicyBuilder::no_retry_budget);
    }),
];

fn ready_after_failure(calls: u64) {
    let policy = policy();
    fail(&policy, 1);
    make(calls, stack(&policy, Inner::ready()), Expect::All);
}

/// One outcome in a thousand is a failure. It is told to the breaker, not
/// called for, since its call would be a retried one: what it costs the ready
/// calls is what counts.
fn ready_with_failures(calls: u64) {
    let policy = policy();
    fail(&policy, 1);
    let service = stack(&policy, Inner::ready());
    let fail_sometimes = |call: u64| {
        if call % 1000 == 999 {
            fail(&policy, 1);
        }
    };
    block_on(repeat::calls(service, calls, Expect::All, fail_sometimes));
}

/// The bucket is never full, so that each success pays in.
fn ready_with_deposit(calls: u64) {
    let budget = RetryBudget::ratio(0.001).cap(1e9).opening_balance(0.0);
    let policy = settings().retry_budget(budget).build();
    let service = stack(&policy.expect("a valid policy"), Inner::ready());
    make(calls, service, Expect::All);
}

fn refused(calls: u64) {
    let policy = policy();
    fail(&policy, 20);
    make(calls, stack(&policy, Inner::out_of_reach()), Expect::None);
}

/// The first attempt fails, the second answers, with no wait between them.
pub fn retry_once(calls: u64, budget: impl FnOnce(PolicyBuilder) -> PolicyBuilder) {
    let settings = settings()
        .backoff(Backoff::none())
        // Half of the attempts fail.
        .breaker(breaker(0.9));
    let policy = budget(settings).build().expect("a valid policy");
    make(
        calls,
        stack(&policy, Inner::failing_every_other()),
        Expect::All,
    );
}

pub fn make<S: Service<u64>>(calls: u64, service: S, expect: Expect) {
    block_on(repeat::calls(service, calls, expect, |_| ()));
}

fn block_on(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime")
        .block_on(future);
}
