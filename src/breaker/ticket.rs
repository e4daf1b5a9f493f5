//! What the machine and those who ask it say to each other.

use std::time::Duration;

use crate::name::Name;

/// Proof of admission, to be handed back with the outcome exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// The period in which it was given. An outcome from another one changes
    /// nothing.
    pub(crate) generation: u32,
    pub(crate) kind: TicketKind,
    /// Whether it holds a place under the concurrency limit.
    pub(crate) placed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TicketKind {
    /// Of a closed or disabled breaker: the window counts it.
    Counted,
    /// It holds one of the half-open period's slots.
    Probe,
    /// It is part of a recovery's share.
    Share,
}

/// What an attempt came to that a machine wants to hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Success,
    /// With the longest wait that the dependency asked for.
    Failure(Option<Duration>),
    /// An answer that says nothing about health.
    Neutral,
    /// No answer was waited for.
    Dropped,
}

/// A change of state, each told exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transition {
    Opened { open_for: Duration },
    HalfOpened,
    Recovering { ramp: Duration },
    Closed,
    ForcedOpen { reason: Name },
    Disabled,
}

/// What the machine says to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Admitted(Ticket),
    /// Refused until at least this time.
    Open {
        until: u64,
    },
    /// Probes are out; at this time their lease is over.
    ProbesOut {
        lease_over: u64,
    },
    /// The recovery's share is used up for the moment.
    OverShare,
    /// Opened by hand.
    Forced(Name),
}
