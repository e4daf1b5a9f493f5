//! Why a call that could be put off was not, or not for longer.

use std::fmt;

/// The bound of a [`Defer`](crate::defer) that a call ran into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ParkLimit {
    /// As many calls are parked as may be.
    Calls,
    /// It was parked for as long as may be, or would have been before the
    /// breaker's next check.
    Time,
    /// Its deadline passed, or would have before the breaker's next check.
    Deadline,
}

impl ParkLimit {
    /// The name used in events, such as `"deadline"`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Time => "time",
            Self::Deadline => "deadline",
        }
    }
}

impl fmt::Display for ParkLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Calls => "no more calls may be parked",
            Self::Time => "it may not be parked for longer",
            Self::Deadline => "its deadline comes before it could be brought back",
        })
    }
}
