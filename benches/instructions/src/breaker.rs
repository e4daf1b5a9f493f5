//! The breaker alone, through its handle: admission and outcome, by trip rule.

use std::time::Duration;

use steadfast::{Breaker, BreakerConfig, Window};

use crate::Workload;
use crate::repeat::{self, Expect};

pub const WORKLOADS: &[Workload] = &[
    ("consecutive-success", |n| succeed(n, CONSECUTIVE)),
    ("consecutive-failure", |n| fail(n, CONSECUTIVE)),
    ("count-of-20-success", |n| succeed(n, count(20))),
    ("count-of-20-failure", |n| fail(n, count(20))),
    ("count-of-100-success", |n| succeed(n, count(100))),
    ("count-of-100-failure", |n| fail(n, count(100))),
    ("count-of-1000-success", |n| succeed(n, count(1000))),
    ("count-of-1000-failure", |n| fail(n, count(1000))),
    ("time-success", |n| succeed(n, TIME)),
    ("time-failure", |n| fail(n, TIME)),
];

/// In the failure workloads one outcome in so many is a success: it keeps
/// rules closed that only failures without end would fulfil.
const ONE_SUCCESS_IN: u64 = 20;

const CONSECUTIVE: BreakerConfig = BreakerConfig::consecutive(ONE_SUCCESS_IN as u32);

const TIME: BreakerConfig =
    BreakerConfig::failure_rate(1.0).window(Window::time(Duration::from_secs(10)));

const fn count(calls: u32) -> BreakerConfig {
    BreakerConfig::failure_rate(1.0).window(Window::count(calls))
}

fn succeed(times: u64, config: BreakerConfig) {
    outcomes(times, config, |_| false);
}

fn fail(times: u64, config: BreakerConfig) {
    outcomes(times, config, |number| number % ONE_SUCCESS_IN != 0);
}

fn outcomes(times: u64, config: BreakerConfig, is_failure: impl Fn(u64) -> bool) {
    let breaker = Breaker::new("alone", config).expect("valid settings");
    repeat::count(times, Expect::All, |number| {
        one(&breaker, is_failure(number))
    });
}

/// Whether the outcome was admitted.
#[inline(never)]
fn one(breaker: &Breaker, failed: bool) -> bool {
    let Ok(permit) = breaker.admit() else {
        return false;
    };
    if failed {
        permit.failure();
    } else {
        permit.success();
    }
    true
}
