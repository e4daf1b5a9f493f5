//! Points in time as one number.
//!
//! An instant takes two words, and three branches to compare; a call compares
//! and adds some ten of them. As nanoseconds they are one word and one
//! instruction, and "never" is the largest of them. That takes about eighty
//! instructions off a call and sixty bytes off its future.
//!
//! The clock stays tokio's. Of an instant the standard library tells nothing but
//! its difference to another, in some forty instructions of checked arithmetic.
//! But it hands its seconds and nanoseconds to whoever hashes it, and from these
//! the number comes in five. What a hash is made of is nobody's promise: so it
//! is tried out first whether the numbers agree with the differences, and if
//! they do not, the differences are taken.

use std::hash::{Hash, Hasher};
use std::ops::Add;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::span::{Span, nanos};

/// A point in time, in nanoseconds since one that is the same for the whole
/// process and means nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

/// An instant and its number, which all others go by.
struct Origin {
    instant: Instant,
    number: u64,
}

/// Whether what is read of an instant is its number.
static READABLE: AtomicBool = AtomicBool::new(false);

static ORIGIN: OnceLock<Origin> = OnceLock::new();

/// A century, so that instants before the origin have numbers too.
const UNREADABLE_ORIGIN: u64 = 36_525 * 86_400 * 1_000_000_000;

impl Moment {
    /// Later than all others, where there is no limit.
    pub(crate) const NEVER: Self = Self(u64::MAX);

    /// The present, by tokio's clock.
    #[inline]
    pub(crate) fn now() -> Self {
        let now = Instant::now();
        // Relaxed: it changes once, and the way around it gives the same.
        if READABLE.load(Ordering::Relaxed) {
            Self(read(now))
        } else {
            Self::of(now)
        }
    }

    /// Saturates five hundred years from here, and at the origin of the numbers,
    /// which is when the machine was started, or a century ago.
    #[cold]
    pub(crate) fn of(at: Instant) -> Self {
        let Origin { instant, number } = origin();
        Self(match at.checked_duration_since(*instant) {
            Some(later) => number.saturating_add(nanos(later)),
            None => number.saturating_sub(nanos(instant.saturating_duration_since(at))),
        })
    }

    /// Never, where there is none.
    pub(crate) fn of_limit(at: Option<Instant>) -> Self {
        at.map_or(Self::NEVER, Self::of)
    }

    /// For timers and users; `None` for never.
    pub(crate) fn instant(self) -> Option<Instant> {
        if self == Self::NEVER {
            return None;
        }
        let Origin { instant, number } = origin();
        match self.0.checked_sub(*number) {
            Some(later) => instant.checked_add(Duration::from_nanos(later)),
            None => instant.checked_sub(Duration::from_nanos(number - self.0)),
        }
    }

    /// Later by this; never, if it is no time or too long.
    #[inline]
    pub(crate) const fn after(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.nanos()))
    }

    /// Zero if that is later.
    #[inline]
    pub(crate) const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// As [`since`](Self::since), in one word.
    #[inline]
    pub(crate) const fn span_since(self, earlier: Self) -> Span {
        Span::of_nanos(Some(self.0.saturating_sub(earlier.0)))
    }

    #[inline]
    pub(crate) const fn nanos(self) -> u64 {
        self.0
    }

    #[cfg(test)]
    pub(crate) const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    /// Never, if it is too long.
    fn add(self, wait: Duration) -> Self {
        self.after(Span::new(Some(wait)))
    }
}

fn origin() -> &'static Origin {
    ORIGIN.get_or_init(|| {
        let instant = Instant::now();
        let readable = agrees(instant, read(instant));
        READABLE.store(readable, Ordering::Relaxed);
        let number = if readable {
            read(instant)
        } else {
            UNREADABLE_ORIGIN
        };
        Origin { instant, number }
    })
}

/// Whether what is read differs as the instants do, across each of the places
/// where seconds and nanoseconds meet.
fn agrees(origin: Instant, number: u64) -> bool {
    let steps = [
        Duration::from_nanos(1),
        Duration::from_nanos(999_999_999),
        Duration::from_secs(1),
        Duration::from_nanos(1_000_000_001),
        Duration::new(86_400, 500_000_000),
    ];
    let later = steps.iter().all(|step| {
        let at = origin.checked_add(*step);
        at.is_none_or(|at| read(at).checked_sub(number) == Some(nanos(*step)))
    });
    let earlier = origin.checked_sub(Duration::from_nanos(1));
    later && earlier.is_none_or(|at| read(at) < number)
}

#[inline]
fn read(at: Instant) -> u64 {
    let mut reader = Reader {
        seconds: 0,
        nanos: 0,
    };
    at.hash(&mut reader);
    let seconds = reader.seconds.wrapping_mul(1_000_000_000);
    seconds.wrapping_add(u64::from(reader.nanos))
}

/// Takes what it is given for seconds and nanoseconds.
struct Reader {
    seconds: u64,
    nanos: u32,
}

impl Hasher for Reader {
    #[inline]
    fn write_u32(&mut self, nanos: u32) {
        self.nanos = nanos;
    }

    #[inline]
    fn write_u64(&mut self, seconds: u64) {
        self.seconds = seconds;
    }

    #[inline]
    fn write_i64(&mut self, seconds: i64) {
        #[expect(
            clippy::cast_sign_loss,
            reason = "none is below zero but before the start"
        )]
        let seconds = seconds as u64;
        self.seconds = seconds;
    }

    fn write(&mut self, _: &[u8]) {}

    fn finish(&self) -> u64 {
        self.seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_differ_as_instants_do_and_lead_back_to_them() {
        let here = Moment::now();
        if cfg!(target_os = "linux") {
            let readable = READABLE.load(Ordering::Relaxed);
            assert!(readable, "each call pays for differences");
        }
        let base = Instant::now();
        for nanos in [0, 1, 999_999_999, 1_000_000_000, 86_400_123_456_789] {
            let step = Duration::from_nanos(nanos);
            let (earlier, later) = (Moment::of(base), Moment::of(base + step));
            assert_eq!(later.since(earlier), step);
            assert_eq!(later.instant(), Some(base + step));
            assert_eq!(earlier.after(Span::new(Some(step))), later);
            assert_eq!(earlier.since(later), Duration::ZERO);
        }
        // Before the machine was started there is one number for all.
        let step = Duration::from_millis(1);
        let before = Moment::of(base - step);
        assert_eq!(Moment::of(base).since(before), step);
        assert_eq!(before.instant(), Some(base - step));
        let Origin { instant, number } = origin();
        let before = Moment::of(*instant - step);
        assert_eq!(before.nanos(), number - 1_000_000);
        assert_eq!(before.instant(), Some(*instant - step));
        let read = Moment(read(base));
        assert!(!cfg!(target_os = "linux") || read == Moment::of(base));
        assert!(here <= Moment::now());
    }

    #[test]
    fn never_is_later_than_all_and_no_time_leads_past_it() {
        let now = Moment::now();
        assert!(now < Moment::NEVER);
        assert_eq!(now.after(Span::new(None)), Moment::NEVER);
        assert_eq!(now.after(Span::new(Some(Duration::MAX))), Moment::NEVER);
        assert_eq!(Moment::NEVER.instant(), None);
        assert_eq!(Moment::of_limit(None), Moment::NEVER);
    }

    #[test]
    fn numbers_that_do_not_agree_are_found_out() {
        let base = Instant::now();
        assert!(!agrees(base, read(base).wrapping_add(1)));
        assert!(!agrees(base, read(base).wrapping_sub(1)));
    }
}
