//! The breaker alone, by trip rule.

use steadfast::{Breaker, BreakerConfig};

use crate::Workload;
use crate::repeat::{self, Expect};
use crate::rules::{CONSECUTIVE, ONE_SUCCESS_IN, TIME, count, outcome};

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

fn succeed(times: u64, config: BreakerConfig) {
    outcomes(times, config, |_| false);
}

fn fail(times: u64, config: BreakerConfig) {
    outcomes(times, config, |number| number % ONE_SUCCESS_IN != 0);
}

fn outcomes(times: u64, config: BreakerConfig, is_failure: impl Fn(u64) -> bool) {
    let breaker = Breaker::new("alone", config).expect("valid settings");
    repeat::count(times, Expect::All, |number| {
        outcome(&breaker, is_failure(number))
    });
}
