//! Points in time in header values (RFC 9110 §5.6.7).

use std::time::{SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use http::header::DATE;

use crate::http::number::digits;

const DAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];

/// The present by the sender's clock, where it says so; else ours. Against its
/// own clock a server's date is right however wrong that clock is.
pub(super) fn sent_at(headers: &HeaderMap, now: SystemTime) -> SystemTime {
    headers
        .get(DATE)
        .and_then(|value| read(value.as_bytes(), now))
        .unwrap_or(now)
}

/// One of the three forms. A date that the calendar has not, or with the day
/// of another week, is none.
pub(super) fn read(text: &[u8], now: SystemTime) -> Option<SystemTime> {
    let text = std::str::from_utf8(text).ok()?;
    let widened = widened(text.trim(), now);
    httpdate::parse_http_date(widened.as_deref().unwrap_or(text)).ok()
}

/// `Sunday, 06-Nov-94 08:49:37 GMT` with all four digits of its year, as
/// `Sun, 06 Nov 1994 08:49:37 GMT`; `None` for the other forms.
///
/// `httpdate` takes 70 to 99 for the last century for ever. The RFC moves with
/// the present.
fn widened(text: &str, now: SystemTime) -> Option<String> {
    let (weekday, rest) = text.split_once(", ")?;
    let weekday = DAYS.iter().find(|day| **day == weekday)?.get(..3)?;
    let (date, time) = rest.split_once(' ')?;
    let mut parts = date.splitn(3, '-');
    let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
    if year.len() != 2 {
        return None;
    }
    let year = full_year(digits(year.as_bytes())?, now);
    Some(format!("{weekday}, {day} {month} {year:04} {time}"))
}

/// The latest year that ends in these two digits and lies at most fifty years
/// ahead.
fn full_year(two_digits: u64, now: SystemTime) -> u64 {
    // By the mean year of the calendar: at most a day off, at the turn of the
    // year, in a rule of thumb about fifty years.
    const MEAN_YEAR: u64 = 31_556_952;
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let latest = 1970 + 50 + seconds / MEAN_YEAR;
    latest - latest.saturating_sub(two_digits) % 100
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Sun 29 Nov 2026 12:00:00 UTC.
    fn present() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_795_953_600)
    }

    #[test]
    fn two_digits_mean_the_latest_year_at_most_fifty_ahead() {
        for (digits, year) in [(26, 2026), (0, 2000), (76, 2076), (77, 1977), (94, 1994)] {
            assert_eq!(full_year(digits, present()), year, "{digits}");
        }
        let year = Duration::from_secs(31_556_952);
        assert_eq!(full_year(5, present() + 70 * year), 2105);
        assert_eq!(full_year(94, present() + 70 * year), 2094);
        assert_eq!(full_year(94, UNIX_EPOCH - year), 1994);
        assert_eq!(full_year(21, UNIX_EPOCH - year), 1921);
    }

    #[test]
    fn the_three_forms_name_the_same_instant() {
        for text in [
            "Sun, 29 Nov 2026 12:00:00 GMT",
            "Sunday, 29-Nov-26 12:00:00 GMT",
            "Sun Nov 29 12:00:00 2026",
            " Sun, 29 Nov 2026 12:00:00 GMT\t",
        ] {
            assert_eq!(read(text.as_bytes(), present()), Some(present()), "{text}");
        }
        let december = read(b"Tue Dec  1 12:00:00 2026", present());
        assert_eq!(december, Some(present() + Duration::from_secs(172_800)));
    }

    #[test]
    fn what_is_not_quite_a_date_is_none() {
        for text in [
            "",
            "Mon, 29 Nov 2026 12:00:30 GMT",
            "Monday, 29-Nov-26 12:00:30 GMT",
            "Sun, 31 Feb 2026 12:00:00 GMT",
            "Sun, 00 Nov 2026 12:00:00 GMT",
            "Sun, 29 Nov 2026 24:00:00 GMT",
            "Sun, 29 Nov 2026 12:60:00 GMT",
            "Sun, 29 Nov 2026 12:00:30 +0000",
            "Sun, 29 Nov 2026 12:00:30 UTC",
            "sun, 29 nov 2026 12:00:30 gmt",
            "Sun, 29 Nov 10000 12:00:30 GMT",
            "Sunday, 29-Nov-2026 12:00:30 GMT",
            "Sunday, 29-Nov-26",
            "Sunday, 29-Nov-- 12:00:30 GMT",
            "Sunday, -- 12",
            "Sunday, ",
            "Soonday, 29-Nov-26 12:00:30 GMT",
            "Sonntag, 29-Nov-26 12:00:30 GMT",
            "Sun\u{f6}, 29 Nov 2026 12:00:30 GMT",
        ] {
            assert_eq!(read(text.as_bytes(), present()), None, "{text:?}");
        }
        assert_eq!(read(b"\xff\xfe", present()), None);
    }
}
