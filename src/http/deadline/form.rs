//! The forms in which a deadline travels.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::http::number::digits;

/// A request header that says how much time its caller has left.
///
/// | constructor | header | form | most |
/// |---|---|---|---|
/// | [`grpc`](Self::grpc) | `grpc-timeout` | 1 to 8 digits and a unit, `H` `M` `S` `m` `u` `n` | 99,999,999 hours |
/// | [`connect`](Self::connect) | `connect-timeout-ms` | 1 to 10 digits, milliseconds | 115 days |
/// | [`envoy`](Self::envoy) | `x-envoy-upstream-rq-timeout-ms` | digits, milliseconds | 292 million years |
/// | [`envoy_expected`](Self::envoy_expected) | `x-envoy-expected-rq-timeout-ms` | digits, milliseconds | 292 million years |
/// | [`millis`](Self::millis) | your own | digits, milliseconds | 292 million years |
///
/// The first two are those of the gRPC and Connect protocols. Envoy takes its
/// timeout from `x-envoy-upstream-rq-timeout-ms` and tells the service behind
/// it in `x-envoy-expected-rq-timeout-ms`; so a client sends the former and a
/// server behind Envoy reads the latter.
///
/// # Encoding
///
/// Rounded down to the unit, so that whoever is called gives up before whoever
/// calls; what is less than one unit is one, and what is more than the form can
/// say is the most that it can. Zero has no encoding: with nothing left there
/// is nothing to send. For gRPC the unit is the finest that fits.
///
/// # Parsing
///
/// Strict: no sign, no space inside, no fraction, no other unit, no more digits
/// than the form has. Zero is read as no time at all, also for Envoy, which
/// itself takes it for no limit: it never means more time than one.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use steadfast::http::DeadlineHeader;
///
/// let grpc = DeadlineHeader::grpc();
/// let value = grpc.encode(Duration::from_millis(1500)).unwrap();
/// assert_eq!(value, "1500000u");
/// assert_eq!(grpc.parse(&value), Some(Duration::from_millis(1500)));
/// assert_eq!(grpc.encode(Duration::ZERO), None);
///
/// let own = DeadlineHeader::millis(http::HeaderName::from_static("x-time-left-ms"));
/// assert_eq!(own.encode(Duration::from_millis(1500)).unwrap(), "1500");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadlineHeader {
    name: HeaderName,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Grpc,
    /// Milliseconds, in so many digits at most.
    Millis {
        digits: usize,
        most: u64,
    },
}

/// The units of gRPC, finest first.
const UNITS: [(u8, Duration); 6] = [
    (b'n', Duration::from_nanos(1)),
    (b'u', Duration::from_micros(1)),
    (b'm', Duration::from_millis(1)),
    (b'S', Duration::from_secs(1)),
    (b'M', Duration::from_secs(60)),
    (b'H', Duration::from_secs(3600)),
];

const GRPC_DIGITS: usize = 8;
const GRPC_MOST: u128 = 99_999_999;

impl DeadlineHeader {
    /// `grpc-timeout`, of gRPC over HTTP/2.
    #[must_use]
    pub const fn grpc() -> Self {
        Self {
            name: HeaderName::from_static("grpc-timeout"),
            form: Form::Grpc,
        }
    }

    /// `connect-timeout-ms`, of the Connect protocol.
    #[must_use]
    pub const fn connect() -> Self {
        Self {
            name: HeaderName::from_static("connect-timeout-ms"),
            form: Form::Millis {
                digits: 10,
                most: 9_999_999_999,
            },
        }
    }

    /// `x-envoy-upstream-rq-timeout-ms`, which Envoy obeys.
    #[must_use]
    pub const fn envoy() -> Self {
        Self::millis(HeaderName::from_static("x-envoy-upstream-rq-timeout-ms"))
    }

    /// `x-envoy-expected-rq-timeout-ms`, which Envoy passes on.
    #[must_use]
    pub const fn envoy_expected() -> Self {
        Self::millis(HeaderName::from_static("x-envoy-expected-rq-timeout-ms"))
    }

    /// Whole milliseconds in a header of your own.
    #[must_use]
    pub const fn millis(name: HeaderName) -> Self {
        Self {
            name,
            form: Form::Millis {
                digits: usize::MAX,
                // Others keep milliseconds in a signed number.
                most: i64::MAX as u64,
            },
        }
    }

    /// The header's name.
    #[must_use]
    pub const fn name(&self) -> &HeaderName {
        &self.name
    }

    /// The value that says `left`; `None` if nothing is left.
    #[must_use]
    pub fn encode(&self, left: Duration) -> Option<HeaderValue> {
        if left.is_zero() {
            return None;
        }
        match self.form {
            Form::Grpc => {
                let (number, unit) = in_grpc_units(left);
                HeaderValue::try_from(format!("{number}{unit}")).ok()
            }
            Form::Millis { most, .. } => {
                let millis = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
                Some(HeaderValue::from(millis.clamp(1, most)))
            }
        }
    }

    /// The time that `value` grants; `None` if it is malformed.
    #[must_use]
    pub fn parse(&self, value: &HeaderValue) -> Option<Duration> {
        let text = value.as_bytes().trim_ascii();
        match self.form {
            Form::Grpc => {
                let (unit, number) = text.split_last()?;
                let (_, unit) = UNITS.iter().find(|(letter, _)| letter == unit)?;
                let number = u32::try_from(at_most(GRPC_DIGITS, number)?).ok()?;
                unit.checked_mul(number)
            }
            Form::Millis { digits, .. } => at_most(digits, text).map(Duration::from_millis),
        }
    }

    /// The least that the lines of this header grant; those that are malformed
    /// are passed over.
    pub(super) fn read(&self, headers: &HeaderMap) -> Option<Duration> {
        let lines = headers.get_all(&self.name).iter();
        lines.filter_map(|line| self.parse(line)).min()
    }
}

/// A number of at most so many digits.
fn at_most(longest: usize, text: &[u8]) -> Option<u64> {
    if text.len() > longest {
        return None;
    }
    digits(text)
}

fn in_grpc_units(left: Duration) -> (u128, char) {
    for (letter, unit) in UNITS {
        let number = left.as_nanos() / unit.as_nanos();
        if number <= GRPC_MOST {
            return (number, char::from(letter));
        }
    }
    (GRPC_MOST, 'H')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(form: &DeadlineHeader, text: &str) -> Option<Duration> {
        form.parse(&HeaderValue::from_bytes(text.as_bytes()).unwrap())
    }

    fn own() -> DeadlineHeader {
        DeadlineHeader::millis(HeaderName::from_static("x-left-ms"))
    }

    #[test]
    fn a08_every_unit_of_grpc_is_read() {
        let grpc = DeadlineHeader::grpc();
        for (text, expected) in [
            ("1H", Duration::from_secs(3600)),
            ("1M", Duration::from_secs(60)),
            ("1S", Duration::from_secs(1)),
            ("1m", Duration::from_millis(1)),
            ("1u", Duration::from_micros(1)),
            ("1n", Duration::from_nanos(1)),
            ("00000001S", Duration::from_secs(1)),
            ("99999999n", Duration::from_nanos(99_999_999)),
            ("99999999H", Duration::from_secs(359_999_996_400)),
            ("0S", Duration::ZERO),
            (" 5S\t", Duration::from_secs(5)),
        ] {
            assert_eq!(parse(&grpc, text), Some(expected), "{text:?}");
        }
    }

    #[test]
    fn a08_what_is_not_quite_a_timeout_is_none() {
        let grpc = DeadlineHeader::grpc();
        for text in [
            "100000000n",
            "000000001S",
            "+5S",
            "-5S",
            "5",
            "S",
            "",
            "5s",
            "5 S",
            "5.0S",
            "5Sx",
            "\u{665}S",
            "5\u{ff33}",
        ] {
            assert_eq!(parse(&grpc, text), None, "{text:?}");
        }
    }

    #[test]
    fn milliseconds_are_digits_and_nothing_else() {
        for form in [DeadlineHeader::connect(), DeadlineHeader::envoy(), own()] {
            assert_eq!(parse(&form, "1500"), Some(Duration::from_millis(1500)));
            assert_eq!(parse(&form, "0"), Some(Duration::ZERO));
            for text in ["", "+5", "-5", "5m", "5.0", "5 0", "0x5", "\u{665}"] {
                assert_eq!(parse(&form, text), None, "{text:?}");
            }
        }
        let connect = DeadlineHeader::connect();
        let most = Duration::from_millis(9_999_999_999);
        assert_eq!(parse(&connect, "9999999999"), Some(most));
        assert_eq!(parse(&connect, "00000000001"), None);
        let most = Duration::from_millis(u64::MAX);
        assert_eq!(parse(&own(), &"9".repeat(100)), Some(most));
    }

    #[test]
    fn the_finest_unit_that_fits_is_written() {
        let grpc = DeadlineHeader::grpc();
        for (nanos, expected) in [
            (1, "1n"),
            (99_999_999, "99999999n"),
            (100_000_000, "100000u"),
            (100_000_999, "100000u"),
            (99_999_999_999, "99999999u"),
            (100_000_000_000, "100000m"),
            (99_999_999_999_999, "99999999m"),
            (100_000_000_000_000, "100000S"),
            (99_999_999_999_999_999, "99999999S"),
            (100_000_000_000_000_000, "1666666M"),
            (u64::MAX, "5124095H"),
        ] {
            let written = grpc.encode(Duration::from_nanos(nanos)).unwrap();
            assert_eq!(written, expected);
        }
        assert_eq!(grpc.encode(Duration::MAX).unwrap(), "99999999H");
    }

    #[test]
    fn milliseconds_are_at_least_one_and_at_most_what_the_form_has() {
        let nano = Duration::from_nanos(1);
        for (form, most) in [
            (DeadlineHeader::connect(), "9999999999"),
            (DeadlineHeader::envoy(), "9223372036854775807"),
            (DeadlineHeader::envoy_expected(), "9223372036854775807"),
            (own(), "9223372036854775807"),
        ] {
            assert_eq!(form.encode(nano).unwrap(), "1");
            assert_eq!(form.encode(Duration::from_micros(1999)).unwrap(), "1");
            assert_eq!(form.encode(Duration::MAX).unwrap(), most);
            assert_eq!(form.encode(Duration::ZERO), None);
        }
        assert_eq!(DeadlineHeader::grpc().encode(Duration::ZERO), None);
    }

    /// The unit that a form writes `left` in, and the most that it can say.
    fn unit_and_most(form: &DeadlineHeader, left: Duration) -> (Duration, Duration) {
        let milli = Duration::from_millis(1);
        match form.form {
            Form::Millis { most, .. } => (milli, Duration::from_millis(most)),
            Form::Grpc => {
                let fits = |unit: &Duration| left.as_nanos() / unit.as_nanos() <= 99_999_999;
                let unit = UNITS.map(|(_, unit)| unit).into_iter().find(fits);
                let hour = Duration::from_secs(3600);
                (unit.unwrap_or(hour), 99_999_999 * hour)
            }
        }
    }

    fn any_form() -> impl Strategy<Value = DeadlineHeader> {
        prop::sample::select(vec![
            DeadlineHeader::grpc(),
            DeadlineHeader::connect(),
            DeadlineHeader::envoy(),
            own(),
        ])
    }

    /// Durations of every magnitude.
    fn any_duration() -> impl Strategy<Value = Duration> {
        (any::<u64>(), 0..64_u32, 0..1_000_000_000_u32)
            .prop_map(|(seconds, shift, nanos)| Duration::new(seconds >> shift, nanos))
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_as_the_same_within_a_unit(
            form in any_form(),
            left in any_duration(),
        ) {
            prop_assume!(!left.is_zero());
            let value = form.encode(left).unwrap();
            let read = form.parse(&value).unwrap();
            let (unit, most) = unit_and_most(&form, left);
            prop_assert!(!read.is_zero());
            prop_assert!(read <= left.max(unit), "{value:?}: {read:?} of {left:?}");
            prop_assert!(left.min(most) - read.min(left) < unit, "{value:?} of {left:?}");
        }

        #[test]
        fn nothing_that_can_be_received_is_too_much(
            form in any_form(),
            text in prop::collection::vec(any::<u8>(), 0..24),
        ) {
            if let Ok(value) = HeaderValue::from_bytes(&text) {
                let _ = form.parse(&value);
            }
        }

        #[test]
        fn what_is_read_is_what_was_said(
            number in 0..=99_999_999_u32,
            unit in prop::sample::select(&UNITS[..]),
        ) {
            let (letter, unit) = unit;
            let text = format!("{number}{}", char::from(letter));
            prop_assert_eq!(parse(&DeadlineHeader::grpc(), &text), Some(unit * number));
        }
    }
}
