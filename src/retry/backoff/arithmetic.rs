//! The sums behind a backoff, none of which overflows.

use std::time::Duration;

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// `base * factor^retry` in whole numbers, hence exact; `None` beyond what a `Duration` holds.
pub(super) fn whole_growth(base: Duration, factor: f64, retry: u32) -> Option<Duration> {
    // The cast saturates, for factors that overflow any base anyway.
    let growth = (factor as u128).checked_pow(retry)?;
    from_nanos(base.as_nanos().checked_mul(growth)?)
}

/// `base * factor^retry`, rounded to whole nanoseconds; `None` beyond what a `Duration` holds.
pub(super) fn fractional_growth(base: Duration, factor: f64, retry: u32) -> Option<Duration> {
    // Beyond two thousand million retries the window stops growing, which no call lives to see.
    let exponent = i32::try_from(retry).unwrap_or(i32::MAX);
    // Saturates when cast: infinity becomes `u128::MAX`, NaN zero.
    from_nanos((base.as_nanos() as f64 * factor.powi(exponent)).round() as u128)
}

fn from_nanos(nanos: u128) -> Option<Duration> {
    let secs = u64::try_from(nanos / NANOS_PER_SEC).ok()?;
    Some(Duration::new(secs, (nanos % NANOS_PER_SEC) as u32))
}

/// Maps `random`, uniform over all of `u64`, to `[0, longest]`: the whole part of
/// `random / 2^64 * (longest + 1 ns)`.
pub(super) fn scale(longest: Duration, random: u64) -> Duration {
    // The product has up to 158 bits (a `Duration` holds fewer than 2^94 ns), so it is made in
    // two halves.
    let choices = longest.as_nanos() + 1;
    let (high, low) = (choices >> 64, choices & u128::from(u64::MAX));
    let random = u128::from(random);
    let nanos = high * random + ((low * random) >> 64);
    from_nanos(nanos).map_or(longest, |drawn| drawn.min(longest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_the_random_range_are_the_ends_of_the_window() {
        for longest in [
            Duration::from_nanos(1),
            Duration::from_secs(1),
            Duration::from_secs(600),
            Duration::MAX,
        ] {
            assert_eq!(scale(longest, 0), Duration::ZERO);
            assert!(scale(longest, u64::MAX) <= longest);
            assert!(scale(longest, u64::MAX) >= longest.mul_f64(0.999_999).min(longest / 2));
        }
        assert_eq!(
            scale(Duration::from_nanos(1), u64::MAX),
            Duration::from_nanos(1)
        );
    }
}
