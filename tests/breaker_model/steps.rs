//! What happens to a breaker.

use super::reference::Told;
use super::settings::Settings;

/// One thing that happens. Calls are meant by number, modulo those under way.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Start,
    Finish(usize, Told),
    Drop(usize),
    Panic(usize),
    Calls(Calls),
    /// Waits until an open breaker is due and sends probes that succeed.
    Heal,
    /// Likewise, and sends these.
    Probe(Calls),
    /// A call that ends just when it becomes slow, at most a nanosecond off.
    Slow(i64, Told),
    Wait(Wait),
    ForceOpen(&'static str),
    Disable,
    Reset,
    Reconfigure(Change),
}

/// So many calls, one after another, that end at once: one in so many with the
/// one outcome, the rest with the other.
#[derive(Clone, Copy, Debug)]
pub struct Calls {
    pub calls: usize,
    pub one_in: usize,
    pub told: Told,
    pub rest: Told,
}

#[derive(Clone, Copy, Debug)]
pub enum Wait {
    Nanos(u64),
    /// Until something is over, at most a nanosecond too early or too late.
    UntilOver(usize, i64),
    /// Until a call has run as long as makes it slow, likewise.
    UntilSlow(usize, i64),
    /// So many slots of the time window: the counts of a slot carry the lower
    /// bits of its number only.
    Slots(u64),
}

/// Of the present settings.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// All but the window.
    Others(Settings),
    All(Settings),
    /// Settings that cannot work.
    NoProbes,
}
