//! Numbers in header values: strict in form, saturating in size.
//!
//! A number too large for its type must stay large. Wrapped or cut off, a
//! server's "come back next century" becomes a retry at once.

use std::time::Duration;

/// `1*DIGIT` of ASCII and nothing else; too large is kept as `u64::MAX`.
pub(super) fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        Some(sum.saturating_mul(10).saturating_add(digit))
    })
}

/// Milliseconds, with or without a fraction (`1*DIGIT [ "." 1*DIGIT ]`);
/// rounded up to the nanosecond.
pub(super) fn millis(text: &[u8]) -> Option<Duration> {
    let mut parts = text.splitn(2, |byte| *byte == b'.');
    let whole = Duration::from_millis(digits(parts.next()?)?);
    let Some(fraction) = parts.next() else {
        return Some(whole);
    };
    digits(fraction)?;
    Some(whole.saturating_add(nanos_of_a_milli(fraction)))
}

/// The nanoseconds in a decimal fraction of a millisecond.
fn nanos_of_a_milli(fraction: &[u8]) -> Duration {
    const PLACES: usize = 6;
    let (seen, rest) = fraction.split_at(fraction.len().min(PLACES));
    let padding = std::iter::repeat_n(&b'0', PLACES - seen.len());
    let nanos = seen
        .iter()
        .chain(padding)
        .fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    let more = rest.iter().any(|digit| *digit != b'0');
    Duration::from_nanos(nanos + u64::from(more))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ascii_digits_are_digits() {
        assert_eq!(digits(b"0"), Some(0));
        assert_eq!(digits(b"00120"), Some(120));
        for text in ["", "+1", "-1", "1 ", "1.0", "0x10", "1e3", "1_0", "\u{662}"] {
            assert_eq!(digits(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn a_number_too_large_stays_the_largest() {
        assert_eq!(digits(b"18446744073709551615"), Some(u64::MAX));
        for text in ["18446744073709551616", "18446744073709551620"] {
            assert_eq!(digits(text.as_bytes()), Some(u64::MAX), "{text}");
        }
        assert_eq!(digits(&[b'9'; 1000]), Some(u64::MAX));
        assert_eq!(millis(&[b'9'; 1000]), Some(Duration::from_millis(u64::MAX)));
    }

    #[test]
    fn a_fraction_of_a_millisecond_is_never_rounded_down() {
        for (text, nanos) in [
            ("0", 0),
            ("250", 250_000_000),
            ("1.5", 1_500_000),
            ("0.05", 50_000),
            ("0.000001", 1),
            ("0.0000001", 1),
            ("0.9999999", 1_000_000),
            ("0.00000000", 0),
        ] {
            assert_eq!(
                millis(text.as_bytes()),
                Some(Duration::from_nanos(nanos)),
                "{text}"
            );
        }
        for text in [
            "", ".", "1.", ".5", "1.5.5", "-1", "+1", "NaN", "inf", "1e3",
        ] {
            assert_eq!(millis(text.as_bytes()), None, "{text:?}");
        }
    }
}
