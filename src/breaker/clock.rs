//! How a breaker learns the time, if it has to.

use crate::moment::Moment;
use crate::stage::turn::Turn;

/// What tells the time, asked only where it is needed. A trait and not a
/// closure: what is asked in each call must be inlined, which nothing can say of
/// a closure.
pub(super) trait Clock {
    /// Of some moment in the same poll.
    fn of_poll(&mut self) -> Moment;

    /// Exact, where somebody wants to know how long a call ran: it may have been
    /// busy all the while in this poll.
    fn exact(&mut self) -> Moment;
}

impl Clock for Turn {
    #[inline(always)]
    fn of_poll(&mut self) -> Moment {
        self.now()
    }

    fn exact(&mut self) -> Moment {
        self.time_passes();
        self.now()
    }
}

impl<F: FnMut() -> Moment> Clock for F {
    #[inline(always)]
    fn of_poll(&mut self) -> Moment {
        self()
    }

    fn exact(&mut self) -> Moment {
        self()
    }
}
