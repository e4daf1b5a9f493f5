//! News of a breaker's changes.

use tokio::sync::watch;

use super::handle::Breaker;
use super::state::BreakerState;

/// News of a breaker's changes; made by [`Breaker::watch`].
#[derive(Clone, Debug)]
pub struct BreakerWatch {
    pub(super) breaker: Breaker,
    pub(super) generations: watch::Receiver<u32>,
}

impl BreakerWatch {
    /// Where the breaker stands now.
    #[must_use]
    pub fn state(&self) -> BreakerState {
        self.breaker.state()
    }

    /// Waits until the breaker has changed since this was made or last asked,
    /// and tells where it stands then. Changes in between may be passed over,
    /// the last one never is.
    ///
    /// That an open time or a recovery is over is no change until a call
    /// comes; [`state`](Self::state) knows of it.
    ///
    /// # Cancel safety
    ///
    /// A change is taken note of only when it is returned.
    pub async fn changed(&mut self) -> BreakerState {
        // The sender lives in the breaker, of which this holds a handle.
        self.generations.changed().await.ok();
        self.breaker.state()
    }
}
