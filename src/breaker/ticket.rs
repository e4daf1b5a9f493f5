//! What the machine and those who ask it say to each other.

use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

use crate::name::Name;

/// Proof of admission, to be handed back with the outcome exactly once.
///
/// One word: generation (32) | nothing (1) | placed (1) | kind (2), the last
/// never zero. Each call takes one, keeps it and hands it back, and what it is
/// asked nearly always is whether it is a plain one of the present period: the
/// word that it found at the door.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket(NonZeroU64);

const PLACED: u64 = 1 << 2;
const KIND: u64 = PLACED - 1;
const LOWER: u64 = (1 << Ticket::GENERATION_SHIFT) - 1;

impl Ticket {
    /// The lower bits of a plain one.
    pub(super) const PLAIN: u64 = TicketKind::Counted as u64;

    pub(super) const GENERATION_SHIFT: u32 = 4;

    /// What a closed breaker without a limit gives: what stands at its door.
    #[inline]
    pub(super) const fn plain(door: u64) -> Option<Self> {
        match NonZeroU64::new(door) {
            Some(word) if door & LOWER == Self::PLAIN => Some(Self(word)),
            _ => None,
        }
    }

    pub(crate) const fn new(generation: u32, kind: TicketKind) -> Self {
        let word = (generation as u64) << Self::GENERATION_SHIFT | kind as u64;
        match NonZeroU64::new(word) {
            Some(word) => Self(word),
            None => unreachable!(),
        }
    }

    /// Whether it is a plain one, of the period that this door stands for.
    #[inline]
    pub(super) const fn is_of(self, door: u64) -> bool {
        self.0.get() == door
    }

    /// With a place under the concurrency limit, or without.
    pub(crate) const fn placed(self, placed: bool) -> Self {
        if placed {
            Self(self.0.saturating_add(PLACED - (self.0.get() & PLACED)))
        } else {
            self
        }
    }

    /// The period in which it was given. An outcome from another one changes
    /// nothing.
    #[inline]
    pub(crate) const fn generation(self) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "takes the word apart")]
        let generation = (self.0.get() >> Self::GENERATION_SHIFT) as u32;
        generation
    }

    pub(crate) const fn kind(self) -> TicketKind {
        match self.0.get() & KIND {
            1 => TicketKind::Counted,
            2 => TicketKind::Probe,
            _ => TicketKind::Share,
        }
    }

    /// Whether it holds a place under the concurrency limit.
    pub(crate) const fn is_placed(self) -> bool {
        self.0.get() & PLACED != 0
    }

    /// Whether it is counted and holds nothing.
    #[inline]
    pub(crate) const fn is_plain(self) -> bool {
        self.0.get() & LOWER == Self::PLAIN
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("generation", &self.generation())
            .field("kind", &self.kind())
            .field("placed", &self.is_placed())
            .finish()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum TicketKind {
    /// Of a closed or disabled breaker: the window counts it.
    Counted = 1,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_keeps_its_period_kind_and_place_apart() {
        for generation in [0, 1, u32::MAX] {
            for kind in [TicketKind::Counted, TicketKind::Probe, TicketKind::Share] {
                let ticket = Ticket::new(generation, kind);
                let placed = ticket.placed(true);
                for one in [ticket, placed] {
                    assert_eq!((one.generation(), one.kind()), (generation, kind));
                }
                assert!(!ticket.is_placed() && placed.is_placed() && !placed.is_plain());
                assert_eq!(ticket.is_plain(), kind == TicketKind::Counted);
                assert_eq!(ticket.placed(false), ticket);
                assert_eq!(placed.placed(true), placed, "it holds one place");
            }
        }
    }
}
