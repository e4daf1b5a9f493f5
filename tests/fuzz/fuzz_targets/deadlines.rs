//! Deadlines in all their wire forms.
//!
//! No input makes the parsing panic. What is written can be read, is not zero,
//! and differs from what was left by less than one unit, or is one unit. What
//! can be read can be written again, and means no more time then.

#![no_main]

use std::time::Duration;

use http::{HeaderName, HeaderValue};
use libfuzzer_sys::fuzz_target;
use steadfast::http::DeadlineHeader;

const MILLI: Duration = Duration::from_millis(1);

fuzz_target!(|data: &[u8]| {
    let Some((seconds, data)) = data.split_first_chunk::<8>() else {
        return;
    };
    let Some((nanos, data)) = data.split_first_chunk::<4>() else {
        return;
    };
    let Some((shift, text)) = data.split_first() else {
        return;
    };
    // Of every magnitude.
    let seconds = u64::from_le_bytes(*seconds) >> (shift % 64);
    let left = Duration::new(seconds, u32::from_le_bytes(*nanos) % 1_000_000_000);
    for (form, most) in forms() {
        there_and_back(&form, left, most);
        if let Ok(value) = HeaderValue::from_bytes(text) {
            if let Some(read) = form.parse(&value) {
                there_and_back(&form, read, most);
            }
        }
    }
});

fn forms() -> [(DeadlineHeader, Duration); 4] {
    let millis = Duration::from_millis;
    let own = HeaderName::from_static("x-left-ms");
    [
        (
            DeadlineHeader::grpc(),
            Duration::from_secs(99_999_999 * 3600),
        ),
        (DeadlineHeader::connect(), millis(9_999_999_999)),
        (DeadlineHeader::envoy(), millis(i64::MAX as u64)),
        (DeadlineHeader::millis(own), millis(i64::MAX as u64)),
    ]
}

fn there_and_back(form: &DeadlineHeader, left: Duration, most: Duration) {
    let Some(value) = form.encode(left) else {
        assert!(left.is_zero());
        return;
    };
    let read = form.parse(&value).expect("what is written can be read");
    let unit = match value.as_bytes().last() {
        Some(b'n') => Duration::from_nanos(1),
        Some(b'u') => Duration::from_micros(1),
        Some(b'm') => MILLI,
        Some(b'S') => Duration::from_secs(1),
        Some(b'M') => Duration::from_secs(60),
        Some(b'H') => Duration::from_secs(3600),
        _ => MILLI,
    };
    assert!(!read.is_zero());
    assert!(read <= left || read == unit);
    assert!(left.min(most) - read.min(left) < unit);
}
