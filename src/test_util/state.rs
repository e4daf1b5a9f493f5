//! A breaker in a state of the test's choice.

use crate::breaker::handle::Breaker;
use crate::breaker::state::BreakerState;

/// Brings a breaker into `state` now, whatever the one that it is in, without
/// the failures and the time that it would take.
///
/// The way there is that of a breaker whose dependency failed once and came
/// back, and its observers are told of each step: closed, open, half-open,
/// recovering. What it had counted and remembered is forgotten first.
///
/// - `Closed`: with an empty window, as [`Breaker::reset`].
/// - `Open`: for its open time, with jitter, from now on.
/// - `HalfOpen`: with all its probes still to be sent.
/// - `Recovering`: at the beginning of its ramp.
/// - `ForcedOpen`: as [`Breaker::force_open`], with the reason `"forced by a test"`.
/// - `Disabled`: as [`Breaker::disable`].
///
/// From there it goes on by its own rules: outcomes and tokio's time move it.
/// Nothing waits here, and no clock is moved.
///
/// # Panics
///
/// For `Recovering` where the breaker has
/// [no ramp](crate::BreakerConfig::no_ramp): it would be closed at once.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use steadfast::test_util::force_state;
/// use steadfast::{BreakerState, Policy};
///
/// let policy = Policy::builder("inventory").build().unwrap();
/// let breaker = policy.breaker().unwrap();
///
/// force_state(breaker, BreakerState::Open);
/// let refused = policy.call(|| async { Ok::<_, std::io::Error>(12) }).await;
/// assert!(refused.unwrap_err().retry_after().is_some());
///
/// force_state(breaker, BreakerState::HalfOpen);
/// policy.call(|| async { Ok::<_, std::io::Error>(12) }).await.unwrap(); // the probe
/// assert_eq!(breaker.state(), BreakerState::Recovering);
/// # }
/// ```
pub fn force_state(breaker: &Breaker, state: BreakerState) {
    match state {
        BreakerState::Closed => breaker.reset(),
        BreakerState::ForcedOpen => breaker.force_open("forced by a test"),
        BreakerState::Disabled => breaker.disable(),
        BreakerState::Open | BreakerState::HalfOpen | BreakerState::Recovering => {
            breaker.core().fail_and_come_back(state);
        }
    }
    let reached = breaker.state();
    assert_eq!(
        reached,
        state,
        "breaker `{}` cannot be brought into this state",
        breaker.name()
    );
}
