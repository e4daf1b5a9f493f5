//! Settings that several scenarios share, because their references know nothing else.

use std::num::NonZeroU32;
use std::time::Duration;

use steadfast::BreakerConfig;

/// Opens after `threshold` failures in a row for exactly `open_time`, whatever happened before, and
/// lets one probe through then.
pub(crate) fn steady_breaker(threshold: NonZeroU32, open_time: Duration) -> BreakerConfig {
    BreakerConfig::consecutive(threshold.get())
        .open_time(open_time)
        .max_open_time(open_time)
        .growth(1.0)
        .no_ramp()
        .open_jitter(0.0)
        .probes(1)
        .successes(1)
}
