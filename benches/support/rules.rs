//! The breaker alone, through its handle: trip rules and outcomes.

use std::time::Duration;

use steadfast::{Breaker, BreakerConfig, Window};

/// Where most outcomes are failures, one in so many is a success: it keeps
/// rules closed that only failures without end would fulfil.
pub const ONE_SUCCESS_IN: u64 = 20;

pub const CONSECUTIVE: BreakerConfig = BreakerConfig::consecutive(ONE_SUCCESS_IN as u32);

pub const TIME: BreakerConfig =
    BreakerConfig::failure_rate(1.0).window(Window::time(Duration::from_secs(10)));

pub const fn count(calls: u32) -> BreakerConfig {
    BreakerConfig::failure_rate(1.0).window(Window::count(calls))
}

/// Admission and outcome; whether it was admitted.
#[inline(never)]
pub fn outcome(breaker: &Breaker, failed: bool) -> bool {
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
