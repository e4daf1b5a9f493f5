//! The deadline as a value.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

use crate::scope::ambient::Ambient;
use crate::scope::{Scope, Scoped};

/// The instant by which an answer must be there.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use std::time::Duration;
/// use steadfast::Deadline;
///
/// let deadline = Deadline::after(Duration::from_secs(2));
/// deadline
///     .scope(async {
///         let left = Deadline::current().unwrap().remaining();
///         assert!(left <= Duration::from_secs(2));
///     })
///     .await;
/// assert!(Deadline::current().is_none());
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deadline {
    at: Instant,
}

impl Deadline {
    /// `total` from now. A total too large for the clock means about thirty
    /// years, which is as good as none.
    #[must_use]
    pub fn after(total: Duration) -> Self {
        Self {
            at: instant_after(Instant::now(), total),
        }
    }

    /// At this instant.
    #[must_use]
    pub const fn at(at: Instant) -> Self {
        Self { at }
    }

    /// The deadline in scope: the earliest of all stacks and scopes around.
    #[must_use]
    pub fn current() -> Option<Self> {
        Ambient::current().deadline().map(Self::at)
    }

    /// The instant.
    #[must_use]
    pub const fn instant(self) -> Instant {
        self.at
    }

    /// Time left; zero when past.
    #[must_use]
    pub fn remaining(self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    /// Whether it has passed.
    #[must_use]
    pub fn is_past(self) -> bool {
        self.at <= Instant::now()
    }

    /// Puts this deadline in scope for `future`. Stacks inside keep it; other
    /// futures are not cut, they can only ask.
    pub fn scope<F: Future>(self, future: F) -> Scoped<F> {
        Scope::current().with_deadline(self).wrap(future)
    }
}

/// `now + wait`, or about thirty years on where the clock ends before that.
pub(crate) fn instant_after(now: Instant, wait: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 3600);
    now.checked_add(wait).unwrap_or_else(|| now + FAR)
}
