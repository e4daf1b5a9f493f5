//! The word that stands before the machine: generation (32) | door (3).

/// Admit without a question.
pub(super) const CLOSED: u64 = 0;
/// Closed, with a limit on the calls in flight: ask the machine.
pub(super) const ATTENDED: u64 = 1;
/// Switched off by hand: admit, count, never open.
pub(super) const DISABLED: u64 = 2;
/// Ask the machine.
pub(super) const AJAR: u64 = 3;
/// Open: refuse until `shut_until`.
pub(super) const SHUT_OPEN: u64 = 4;
/// Probes are out: refuse until `shut_until`.
pub(super) const SHUT_PROBES: u64 = 5;

/// Whether calls are counted: behind the first three.
#[inline]
pub(super) const fn counts(door: u64) -> bool {
    door & DOOR_MASK <= DISABLED
}

/// Whether it is shut: the last two.
#[inline]
pub(super) const fn is_shut(door: u64) -> bool {
    door & SHUT_OPEN != 0
}

pub(super) const DOOR_BITS: u32 = 3;
pub(super) const DOOR_MASK: u64 = (1 << DOOR_BITS) - 1;

pub(super) const fn door_word(generation: u32, door: u64) -> u64 {
    (generation as u64) << DOOR_BITS | door
}

#[expect(clippy::cast_possible_truncation, reason = "takes the word apart")]
pub(super) const fn generation_of(door: u64) -> u32 {
    (door >> DOOR_BITS) as u32
}
