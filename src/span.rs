//! Durations in eight bytes instead of sixteen.
//!
//! Errors travel by value through every layer between here and the caller.
//! Three of these keep [`Error`](crate::Error) below the 128 bytes from which
//! clippy warns at everyone who returns it.

use std::fmt;
use std::time::Duration;

/// Nanoseconds; longer than 584 years is kept as that.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span(u64);

const NONE: u64 = u64::MAX;

impl Span {
    pub(crate) const ZERO: Self = Self(0);
    pub(crate) const NONE: Self = Self(NONE);

    pub(crate) const fn new(duration: Option<Duration>) -> Self {
        match duration {
            None => Self(NONE),
            Some(duration) => {
                let nanos = duration.as_nanos();
                if nanos < NONE as u128 {
                    #[expect(clippy::cast_possible_truncation, reason = "compared above")]
                    Self(nanos as u64)
                } else {
                    Self(NONE - 1)
                }
            }
        }
    }

    /// As of a duration of so many nanoseconds.
    #[inline]
    pub(crate) const fn of_nanos(nanos: Option<u64>) -> Self {
        match nanos {
            None => Self(NONE),
            Some(NONE) => Self(NONE - 1),
            Some(nanos) => Self(nanos),
        }
    }

    /// The largest number, where there is none.
    #[inline]
    pub(crate) const fn nanos(self) -> u64 {
        self.0
    }

    pub(crate) const fn get(self) -> Option<Duration> {
        match self.0 {
            NONE => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// In nanoseconds; saturates after five hundred years.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_stays_one_and_none_stays_none() {
        assert_eq!(Span::new(None).get(), None);
        for duration in [
            Duration::ZERO,
            Duration::from_nanos(1),
            Duration::from_secs(9),
        ] {
            assert_eq!(Span::new(Some(duration)).get(), Some(duration));
        }
        assert!(Span::new(Some(Duration::MAX)).get() > Some(Duration::from_secs(1 << 34)));
    }
}
