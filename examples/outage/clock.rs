//! Time in the scenarios: a runtime whose clock jumps from one timer to the next, waiting for an
//! instant on it, and evenly spaced arrivals.

use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::{Instant, sleep_until};
use tower::BoxError;

/// Runs `story` on a paused clock: hours pass in the time that the work itself takes.
pub(crate) fn paused<T>(story: impl Future<Output = Result<T, BoxError>>) -> Result<T, BoxError> {
    Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?
        .block_on(story)
}

/// Runs `story` in real time, with the network.
pub(crate) fn real<T>(story: impl Future<Output = Result<T, BoxError>>) -> Result<T, BoxError> {
    Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(story)
}

/// Waits until `instant`; returns without touching a timer if it is not ahead, so that several
/// things at one instant happen in the order in which they were asked for.
pub(crate) async fn wait_until(instant: Instant) {
    if Instant::now() < instant {
        sleep_until(instant).await;
    }
}

/// When the arrival with this number is due, counted from the first: evenly spaced, in the whole
/// milliseconds that the paused clock can tell.
pub(crate) fn arrival(number: u32, per_second: f64) -> Duration {
    Duration::from_millis((f64::from(number) * 1_000.0 / per_second) as u64)
}

/// How many arrivals are due before `length` has passed.
pub(crate) fn arrivals_within(length: Duration, per_second: f64) -> u32 {
    (length.as_millis() as f64 * per_second / 1_000.0).ceil() as u32
}
