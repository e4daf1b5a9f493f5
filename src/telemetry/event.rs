//! The events.

use std::time::Duration;

use crate::breaker::state::BreakerState;
use crate::classify::verdict::Verdict;
use crate::error::{ErrorKind, ParkLimit, Stopped};
use crate::refusal::Refusal;

/// Something that happened inside a stack.
///
/// Times and counts of an event are those of the moment; nothing in it can be
/// asked for more.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A breaker opened.
    #[non_exhaustive]
    BreakerOpened {
        /// The dependency's name.
        dependency: &'static str,
        /// The key, of a breaker in a registry that names its keys.
        key: Option<&'a str>,
        /// The state that it left.
        from: BreakerState,
        /// Grows with each change of state of this breaker.
        generation: u32,
        /// Until it admits a probe.
        open_for: Duration,
    },
    /// A breaker admits its first probe.
    #[non_exhaustive]
    BreakerHalfOpen {
        /// The dependency's name.
        dependency: &'static str,
        /// The key, of a breaker in a registry that names its keys.
        key: Option<&'a str>,
        /// The state that it left.
        from: BreakerState,
        /// Grows with each change of state of this breaker.
        generation: u32,
    },
    /// A breaker's probes succeeded: a growing share of the calls passes.
    #[non_exhaustive]
    BreakerRecovering {
        /// The dependency's name.
        dependency: &'static str,
        /// The key, of a breaker in a registry that names its keys.
        key: Option<&'a str>,
        /// The state that it left.
        from: BreakerState,
        /// Grows with each change of state of this breaker.
        generation: u32,
        /// Until it closes.
        ramp: Duration,
    },
    /// A breaker was opened by hand.
    #[non_exhaustive]
    BreakerForcedOpen {
        /// The dependency's name.
        dependency: &'static str,
        /// The key, of a breaker in a registry that names its keys.
        key: Option<&'a str>,
        /// The state that it left.
        from: BreakerState,
        /// Grows with each change of state of this breaker.
        generation: u32,
        /// As it was given.
        reason: &'static str,
    },
    /// A breaker was switched off by hand.
    #[non_exhaustive]
    BreakerDisabled {
        /// The dependency's name.
        dependency: &'static str,
        /// The key, of a breaker in a registry that names its keys.
        key: Option<&'a str>,
        /// The state that it left.
        from: BreakerState,
        /// Grows with each change of state of this breaker.
        generation: u32,
    },
    /// A breaker closed.
    #[non_exhaustive]
    BreakerClosed {
        /// The dependency's name.
        dependency: &'static str,
        /// The key, of a breaker in a registry that names its keys.
        key: Option<&'a str>,
        /// The state that it left.
        from: BreakerState,
        /// Grows with each change of state of this breaker.
        generation: u32,
    },
    /// An attempt failed and another will follow.
    #[non_exhaustive]
    Retry {
        /// The dependency's name.
        dependency: &'static str,
        /// Which attempt failed, from 1.
        attempt: u32,
        /// How long until the next.
        delay: Duration,
        /// Why it failed.
        verdict: Verdict,
    },
    /// An attempt failed and none will follow.
    #[non_exhaustive]
    Stopped {
        /// The dependency's name.
        dependency: &'static str,
        /// How many attempts were made.
        attempts: u32,
        /// What spoke against another.
        stopped: Stopped,
        /// The verdict on the last one, if any was made.
        verdict: Option<Verdict>,
    },
    /// A breaker refused a call, or its next attempt after the backoff.
    #[non_exhaustive]
    Refused {
        /// How many attempts were made before.
        attempts: u32,
        /// The refusal.
        refusal: Refusal,
    },
    /// The deadline passed before there was an answer.
    #[non_exhaustive]
    OutOfTime {
        /// The dependency's name.
        dependency: &'static str,
        /// How many attempts were made.
        attempts: u32,
    },
    /// A refused call was put off.
    #[non_exhaustive]
    Parked {
        /// The dependency's name.
        dependency: &'static str,
        /// How many calls the same `Defer` has put off now.
        parked: usize,
    },
    /// A call that was put off is over; each is told once, however often it
    /// came back.
    #[non_exhaustive]
    Unparked {
        /// The dependency's name.
        dependency: &'static str,
        /// How many calls the same `Defer` has put off now.
        parked: usize,
        /// Since it was first put off.
        waited: Duration,
        /// The bound that it ran into, if it did.
        limit: Option<ParkLimit>,
    },
    /// A fallback gave the answer.
    #[non_exhaustive]
    FallbackServed {
        /// The dependency's name, which is the primary's.
        dependency: &'static str,
        /// Which entry of the chain, from 0.
        entry: usize,
    },
    /// A fallback failed too, or was passed over: it has no place left, or no
    /// copy of the request.
    #[non_exhaustive]
    FallbackFailed {
        /// The dependency's name, which is the primary's.
        dependency: &'static str,
        /// Which entry of the chain, from 0.
        entry: usize,
    },
    /// A policy was built with this observer.
    #[non_exhaustive]
    PolicyBuilt {
        /// The dependency's name.
        dependency: &'static str,
        /// The retry budget's opening balance, in tokens; of a concurrent
        /// budget, how many retries could run. `None` without a budget.
        budget_balance: Option<f64>,
    },
    /// An attempt ended.
    #[non_exhaustive]
    AttemptEnded {
        /// The dependency's name.
        dependency: &'static str,
        /// Which of its call, from 1.
        attempt: u32,
        /// What it showed; `None` where the call was dropped while it ran.
        verdict: Option<Verdict>,
    },
    /// A call ended.
    #[non_exhaustive]
    CallEnded {
        /// The dependency's name.
        dependency: &'static str,
        /// How.
        outcome: CallOutcome,
        /// How many attempts were made; 0 for a call refused at once.
        attempts: u32,
        /// Time from the call to its end.
        elapsed: Duration,
        /// The verdict on the last attempt.
        verdict: Option<Verdict>,
        /// What spoke against another attempt.
        stopped: Option<Stopped>,
        /// What the call had until its deadline when it began; `None` if
        /// nothing bounded it.
        deadline_left: Option<Duration>,
        /// The retry budget's balance after the call.
        budget_balance: Option<f64>,
    },
    /// A breaker is observed from now on.
    #[non_exhaustive]
    BreakerAdded {
        /// The dependency's name.
        dependency: &'static str,
        /// The key, of a breaker in a registry that names its keys.
        key: Option<&'a str>,
        /// Where it stands.
        state: BreakerState,
    },
    /// A breaker that was observed is no more: dropped with its last handle, or
    /// by its registry.
    #[non_exhaustive]
    BreakerRemoved {
        /// The dependency's name.
        dependency: &'static str,
        /// The key, of a breaker in a registry that names its keys.
        key: Option<&'a str>,
        /// Where it stood.
        state: BreakerState,
    },
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallOutcome {
    /// With an answer that was judged a success.
    Success,
    /// With an answer that was judged otherwise: an `Ok(404)`, an `Ok(503)`.
    Answered,
    /// The last attempt failed.
    Failed,
    /// The last attempt got no answer within the attempt timeout.
    TimedOut,
    /// The deadline passed before there was an answer.
    DeadlineExceeded,
    /// A breaker, or the cap on sends, turned it away, before the first attempt
    /// or a later one.
    Refused,
    /// Whoever waited for it has dropped it.
    Dropped,
}

impl CallOutcome {
    #[cfg(feature = "metrics")]
    pub(super) const ALL: [Self; 7] = [
        Self::Success,
        Self::Answered,
        Self::Failed,
        Self::TimedOut,
        Self::DeadlineExceeded,
        Self::Refused,
        Self::Dropped,
    ];

    /// The name used in metrics, such as `"timed_out"`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Answered => "answered",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::Refused => "refused",
            Self::Dropped => "dropped",
        }
    }
}

impl From<ErrorKind> for CallOutcome {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Failed => Self::Failed,
            ErrorKind::TimedOut => Self::TimedOut,
            ErrorKind::DeadlineExceeded => Self::DeadlineExceeded,
            ErrorKind::Refused => Self::Refused,
        }
    }
}
