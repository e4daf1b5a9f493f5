//! The word that stands before the machine: generation (32) | door (4).

use super::ticket::Ticket;

/// Admit without a question. The ticket that is given is this very word: as
/// long as it stands at the door, the ticket's period lasts. No other ticket and
/// no other door are the same.
pub(super) const CLOSED: u64 = Ticket::PLAIN;
/// Closed, with a limit on the calls in flight: ask the machine.
pub(super) const ATTENDED: u64 = 0b1000;
/// Switched off by hand: admit, count, never open.
pub(super) const DISABLED: u64 = 0b1001;
/// Ask the machine.
pub(super) const AJAR: u64 = 0b1010;
/// Open: refuse until `shut_until`.
pub(super) const SHUT_OPEN: u64 = 0b1100;
/// Probes are out: refuse until `shut_until`.
pub(super) const SHUT_PROBES: u64 = 0b1101;

/// Whether calls are counted: behind the first three.
#[inline]
pub(super) const fn counts(door: u64) -> bool {
    matches!(door & DOOR_MASK, CLOSED | ATTENDED | DISABLED)
}

/// Whether it is shut: the last two.
#[inline]
pub(super) const fn is_shut(door: u64) -> bool {
    door & 0b100 != 0
}

pub(super) const DOOR_BITS: u32 = Ticket::GENERATION_SHIFT;
pub(super) const DOOR_MASK: u64 = (1 << DOOR_BITS) - 1;

pub(super) const fn door_word(generation: u32, door: u64) -> u64 {
    (generation as u64) << DOOR_BITS | door
}

#[expect(clippy::cast_possible_truncation, reason = "takes the word apart")]
pub(super) const fn generation_of(door: u64) -> u32 {
    (door >> DOOR_BITS) as u32
}
