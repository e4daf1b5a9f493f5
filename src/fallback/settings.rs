//! What falls through, to whom, and by when.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::Error;
use crate::limit::lesser;

#[derive(Clone, Debug)]
pub(super) struct Settings<F, P> {
    pub(super) entries: F,
    pub(super) rule: P,
    pub(super) within: Option<Duration>,
    pub(super) reserve: Duration,
}

impl<F, P> Settings<F, P> {
    /// Whether it has a bound of its own for the primary.
    pub(super) const fn is_bounded(&self) -> bool {
        self.within.is_some() || !self.reserve.is_zero()
    }

    /// By when fallback and primary must be done, and the primary alone.
    pub(super) fn deadlines(
        &self,
        caller: Option<Instant>,
        bounded_since: Option<Instant>,
    ) -> (Option<Instant>, Option<Instant>) {
        let Some(now) = bounded_since else {
            return (caller, caller);
        };
        let own = self.within.and_then(|within| now.checked_add(within));
        let overall = lesser(caller, own);
        // A reserve larger than all there is leaves the primary nothing, which
        // is what was asked for.
        let primary = overall.map(|at| at.checked_sub(self.reserve).unwrap_or(now));
        (overall, primary)
    }
}

/// Decides which errors fall through.
pub trait FallsThrough {
    /// Whether the fallback is asked after this error.
    fn falls_through(&self, error: &Error) -> bool;
}

/// The rule of the [module's page](super).
#[derive(Clone, Copy, Debug)]
pub struct ByDefault;

impl FallsThrough for ByDefault {
    fn falls_through(&self, error: &Error) -> bool {
        error.falls_through()
    }
}

impl<P: Fn(&Error) -> bool> FallsThrough for P {
    fn falls_through(&self, error: &Error) -> bool {
        self(error)
    }
}
