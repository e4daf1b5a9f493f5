//! What an answer's headers say about coming again.
//!
//! No input makes the reading panic; a number that can be read is never read as
//! less; a date is read to the second; a further line never shortens the wait,
//! and a further "no" is always heard.

#![no_main]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue, header::RETRY_AFTER};
use libfuzzer_sys::fuzz_target;
use steadfast::http::Hints;

const NAMES: [&str; 6] = [
    "retry-after",
    "date",
    "retry-after-ms",
    "x-ms-retry-after-ms",
    "x-should-retry",
    "grpc-retry-pushback-ms",
];

fuzz_target!(|data: &[u8]| {
    let Some((clock, lines)) = data.split_first_chunk::<8>() else {
        return;
    };
    let now = wall_clock(i64::from_le_bytes(*clock));
    let mut headers = HeaderMap::new();
    for line in lines.split(|byte| *byte == b'\n') {
        let Some((name, value)) = line.split_first() else {
            continue;
        };
        let name = NAMES[usize::from(*name) % NAMES.len()];
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.append(HeaderName::from_static(name), value);
        }
    }
    let hints = Hints::read(&headers, now);
    a_number_is_read_in_full(lines, now);
    a_date_is_read_to_the_second(lines, now);
    more_lines_never_shorten_the_wait(headers, hints, now);
});

/// A present of up to a few ten thousand years from the epoch, either way.
fn wall_clock(seconds: i64) -> SystemTime {
    let away = Duration::from_secs(seconds.unsigned_abs() >> 24);
    if seconds < 0 {
        UNIX_EPOCH - away
    } else {
        UNIX_EPOCH + away
    }
}

fn alone(value: HeaderValue, now: SystemTime) -> Option<Duration> {
    let mut headers = HeaderMap::new();
    headers.insert(RETRY_AFTER, value);
    Hints::read(&headers, now).wait()
}

fn a_number_is_read_in_full(text: &[u8], now: SystemTime) {
    let digits: String = text
        .iter()
        .filter(|byte| byte.is_ascii_digit())
        .take(38)
        .map(|byte| char::from(*byte))
        .collect();
    let Ok(number) = digits.parse::<u128>() else {
        return;
    };
    let seconds = u64::try_from(number).unwrap_or(u64::MAX);
    let value = HeaderValue::from_str(&digits).unwrap();
    assert_eq!(alone(value, now), Some(Duration::from_secs(seconds)));
}

fn a_date_is_read_to_the_second(text: &[u8], now: SystemTime) {
    const FIRST_OF_THE_YEAR_10000: u64 = 253_402_300_800;
    let Some((seconds, _)) = text.split_first_chunk::<8>() else {
        return;
    };
    let seconds = u64::from_le_bytes(*seconds) % FIRST_OF_THE_YEAR_10000;
    let date = UNIX_EPOCH + Duration::from_secs(seconds);
    let value = HeaderValue::from_str(&httpdate::fmt_http_date(date)).unwrap();
    let wait = date.duration_since(now).unwrap_or_default();
    assert_eq!(alone(value, now), Some(wait));
}

fn more_lines_never_shorten_the_wait(mut headers: HeaderMap, hints: Hints, now: SystemTime) {
    headers.append(RETRY_AFTER, HeaderValue::from_static("7"));
    headers.append("x-should-retry", HeaderValue::from_static("false"));
    let more = Hints::read(&headers, now);
    assert!(more.wait() >= hints.wait() && more.wait().is_some());
    assert_eq!(more.again(), Some(false));
}
