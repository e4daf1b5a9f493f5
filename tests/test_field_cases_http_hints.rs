//! Field cases of what a server says about coming again: faults that clients
//! have shipped, each as an answer's headers and the right wait as a number,
//! through the whole stack. `N` is the number of requests sent.

#![cfg(feature = "http")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod support;

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use steadfast::http::Hints;
use steadfast::{
    Backoff, CallReport, PolicyBuilder, ServiceBuilderExt, Stopped, Verdict, classify::classify_fn,
};
use support::*;
use tower::{ServiceBuilder, ServiceExt, service_fn};

/// The policy's own wait between attempts.
const OWN: f64 = 1.0;

/// Sun 29 Nov 2026 12:00:00 UTC, of which the wall clock reads nothing else.
fn present() -> SystemTime {
    UNIX_EPOCH + secs(1_795_953_600.0)
}

fn by_status(result: Result<&Response<()>, &Source>) -> Verdict {
    match result {
        Ok(answer) if answer.status().is_success() => Verdict::success(),
        Ok(answer) => {
            let hints = Hints::read(answer.headers(), present());
            let verdict = Verdict::overloaded(hints.wait()).because(answer.status().as_u16());
            match hints.again() {
                Some(false) => verdict.never_again(),
                _ => verdict,
            }
        }
        Err(_) => Verdict::unreachable(),
    }
}

/// What a call came to whose first answer is 503 with these headers, and whose
/// second, if it is asked for, is 200.
struct Seen {
    sent: Vec<f64>,
    answer: Response<()>,
    stopped: Option<Stopped>,
    ended: f64,
}

async fn call(policy: PolicyBuilder, headers: &[(&'static str, &[u8])]) -> Seen {
    let t = Clock::start();
    let sent = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&sent);
    let headers: Vec<_> = headers
        .iter()
        .map(|(name, value)| {
            let value = HeaderValue::from_bytes(value).unwrap();
            (HeaderName::from_static(name), value)
        })
        .collect();
    let server = service_fn(move |_: Request<()>| {
        let mut answer = Response::new(());
        log.lock().unwrap().push(t.now());
        if log.lock().unwrap().len() == 1 {
            *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            answer.headers_mut().extend(headers.iter().cloned());
        }
        std::future::ready(Ok::<_, Infallible>(answer))
    });
    let policy = policy.classify(classify_fn(by_status)).build().unwrap();
    let client = ServiceBuilder::new().resilience(policy).service(server);
    let (answer, report) = CallReport::capture(client.oneshot(Request::new(()))).await;
    let sent = sent.lock().unwrap().clone();
    Seen {
        sent,
        answer: answer.unwrap(),
        stopped: report.unwrap().stopped(),
        ended: t.now(),
    }
}

/// Honours waits of up to two minutes.
fn patient() -> PolicyBuilder {
    bare()
        .max_attempts(2)
        .largest_hint(secs(120.0))
        .backoff(Backoff::fixed(secs(OWN)))
}

#[track_caller]
fn assert_waited(seen: &Seen, seconds: f64, value: &[u8]) {
    let value = String::from_utf8_lossy(value);
    assert_eq!(seen.answer.status(), 200, "{value:?}");
    assert_eq!(seen.sent.len(), 2, "{value:?}");
    assert_times(&seen.sent, &[0.0, seconds]);
}

#[track_caller]
fn assert_given_up(seen: &Seen, value: &[u8]) {
    let value = String::from_utf8_lossy(value);
    assert_eq!(seen.answer.status(), 503, "{value:?}");
    assert_eq!(seen.stopped, Some(Stopped::HintTooLong), "{value:?}");
    assert_times(&seen.sent, &[0.0]);
    assert_times(&[seen.ended], &[0.0]);
}

#[tokio::test(start_paused = true)]
async fn a05_a_wait_that_can_be_read_is_waited() {
    for (value, seconds) in [
        (&b"120"[..], 120.0),
        (b"00005", 5.0),
        (b" 7 ", 7.0),
        (b"0", 0.0),
        (b"Sun, 29 Nov 2026 12:00:30 GMT", 30.0),
        (b"Sunday, 29-Nov-26 12:00:30 GMT", 30.0),
        (b"Sun Nov 29 12:00:30 2026", 30.0),
        (b"Sun, 06 Nov 1994 08:49:37 GMT", 0.0),
        (b"Sunday, 06-Nov-94 08:49:37 GMT", 0.0),
    ] {
        let seen = call(patient(), &[("retry-after", value)]).await;
        assert_waited(&seen, seconds, value);
    }
}

#[tokio::test(start_paused = true)]
async fn a05_a_wait_that_cannot_be_read_is_our_own() {
    for value in [
        &b"+120"[..],
        b"-1",
        b"1.5",
        b"NaN",
        b"inf",
        b"1e3",
        b"0x10",
        b"",
        b"\xff\xfe",
        b"Mon, 29 Nov 2026 12:00:30 GMT",
        b"Sun, 31 Feb 2026 12:00:00 GMT",
        b"Sun, 29 Nov 2026 12:00:30 +0000",
    ] {
        let seen = call(patient(), &[("retry-after", value)]).await;
        assert_waited(&seen, OWN, value);
    }
}

#[tokio::test(start_paused = true)]
async fn a05_a_wait_that_is_too_long_never_becomes_a_short_one() {
    for value in [
        &b"121"[..],
        b"18446744073709551615",
        b"99999999999999999999",
        b"Tue Dec  1 12:00:00 2026",
        b"Friday, 29-Nov-75 12:00:30 GMT",
        b"Fri, 31 Dec 9999 23:59:59 GMT",
    ] {
        let seen = call(patient(), &[("retry-after", value)]).await;
        assert_given_up(&seen, value);
    }
}

#[tokio::test(start_paused = true)]
async fn a05_other_values_of_the_same_kinds() {
    for (value, seconds) in [
        // Read, with and without zeros and blanks.
        (&b"000"[..], 0.0),
        (b"\t7\t", 7.0),
        (b"0000000000000000000000000000119", 119.0),
        (b"Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        (b"Sunday, 29-Nov-26 11:59:59 GMT", 0.0),
        (b"Sun Nov 29 12:02:00 2026", 120.0),
        // Not read.
        (b"1e9", OWN),
        (b"1E9", OWN),
        (b"Infinity", OWN),
        (b"-Infinity", OWN),
        (b"-0", OWN),
        (b"- 1", OWN),
        (b"-9223372036854775808", OWN),
        (b"0.5", OWN),
        (b".5", OWN),
        (b"5.", OWN),
        (b"5,0", OWN),
        (b"5, 10", OWN),
        (b"5;", OWN),
        (b"5s", OWN),
        (b"5 s", OWN),
        (b"1 0", OWN),
        (b"1_000", OWN),
        (b"\"5\"", OWN),
        (b"\xd9\xa5", OWN),
        (b"\xef\xbc\x95", OWN),
        (b"soon", OWN),
        (b"PT5S", OWN),
        (b"2026-11-29T12:00:30Z", OWN),
        (b"Sun, 29 Nov 2026 12:00:30", OWN),
        (b"Sun, 29 Nov 2026 12:00:30 UTC", OWN),
        (b"Sun, 29 Nov 2026 25:00:30 GMT", OWN),
        (b"Sun, 29 Nov 2026 12:60:30 GMT", OWN),
        (b"Sun, 00 Nov 2026 12:00:30 GMT", OWN),
        (b"Mon, 30 Nov 2026 23:59:60 GMT", OWN),
        (b"Sun, 29 Foo 2026 12:00:30 GMT", OWN),
        (b"Mon, 29 Feb 2027 12:00:00 GMT", OWN),
        (b"Wed, 31 Dec 1969 23:59:59 GMT", OWN),
        (b"Sun, 29 Nov 99999 12:00:30 GMT", OWN),
        (b"Sun, -1 Nov 2026 12:00:30 GMT", OWN),
    ] {
        let seen = call(patient(), &[("retry-after", value)]).await;
        assert_waited(&seen, seconds, value);
    }
    for value in [
        &b"4294967296"[..],
        b"9223372036854775807",
        b"9223372036854775808",
        b"18446744073709551616",
        b"340282366920938463463374607431768211456",
        b"Sun Nov 29 12:02:01 2026",
        b"Sun, 29 Nov 2026 12:02:01 GMT",
        b"Mon, 29 Feb 2044 12:00:00 GMT",
        b"Wednesday, 29-Nov-73 12:00:00 GMT",
    ] {
        let seen = call(patient(), &[("retry-after", value)]).await;
        let value = String::from_utf8_lossy(value).into_owned();
        assert_given_up(&seen, value.as_bytes());
    }
    for digits in [100, 5_000] {
        let value = vec![b'9'; digits];
        let seen = call(patient(), &[("retry-after", &value)]).await;
        assert_given_up(&seen, &value);
    }
}

#[tokio::test(start_paused = true)]
async fn a05_of_many_lines_the_longest_that_can_be_read_counts() {
    let after = |value: &'static str| ("retry-after", value.as_bytes());
    for (lines, seconds) in [
        (&[after("soon"), after("5")][..], 5.0),
        (&[after("5"), after("-1"), after("")], 5.0),
        (&[after("5"), after("Sun, 29 Nov 2026 12:00:30 GMT")], 30.0),
        (&[after("40"), after("Sun, 29 Nov 2026 12:00:30 GMT")], 40.0),
        (&[after("5"), after("Sun, 06 Nov 1994 08:49:37 GMT")], 5.0),
        (&[after("soon"), after("later")], OWN),
    ] {
        let seen = call(patient(), lines).await;
        assert_waited(&seen, seconds, lines[0].1);
    }
    let seen = call(patient(), &[after("5"), after("121")]).await;
    assert_given_up(&seen, b"121");
}

#[tokio::test(start_paused = true)]
async fn a05_no_hint_is_longer_than_the_largest_honoured_at_either_end() {
    for (largest, value, waited) in [
        (secs(0.0), &b"0"[..], Some(0.0)),
        (secs(0.0), b"1", None),
        (secs(7.0), b"7", Some(7.0)),
        (secs(6.999), b"7", None),
        (Duration::MAX, b"31536000", Some(31_536_000.0)),
    ] {
        let policy = patient().largest_hint(largest);
        let seen = call(policy, &[("retry-after", value)]).await;
        match waited {
            Some(seconds) => assert_waited(&seen, seconds, value),
            None => assert_given_up(&seen, value),
        }
    }
    // With a deadline the largest of all hints ends the call, and no sum wraps.
    let policy = patient().largest_hint(Duration::MAX).deadline(secs(30.0));
    let seen = call(policy, &[("retry-after", b"18446744073709551615")]).await;
    assert_eq!(seen.stopped, Some(Stopped::Deadline));
    assert_times(&[seen.ended], &[0.0]);
}

#[tokio::test(start_paused = true)]
async fn a10_hint_jitter_and_deadline_together_never_sleep_past_it() {
    // The hint fits, the window on top of it does not: the draw is cut to what
    // is left.
    for seed in 0..50 {
        let backoff = Backoff::full_jitter(secs(60.0), secs(60.0)).seed(seed);
        let policy = patient().deadline(secs(30.0)).backoff(backoff);
        let seen = call(policy, &[("retry-after", b"20")]).await;
        assert_eq!(seen.answer.status(), 200, "seed {seed}");
        let at = seen.sent[1];
        assert!((20.0..30.0).contains(&at), "seed {seed}: {at}");
    }
}

#[tokio::test(start_paused = true)]
async fn a05_of_two_waits_neither_is_undercut() {
    for [one, other] in [[b"5", &b"10"[..]], [b"10", b"5"]] {
        let seen = call(patient(), &[("retry-after", one), ("retry-after", other)]).await;
        assert_waited(&seen, 10.0, other);
    }
}

#[tokio::test(start_paused = true)]
async fn a_date_is_waited_for_by_the_clock_that_wrote_it() {
    // An hour behind ours.
    let date = &b"Sun, 29 Nov 2026 11:00:00 GMT"[..];
    let until = &b"Sun, 29 Nov 2026 11:00:20 GMT"[..];
    let seen = call(patient(), &[("date", date), ("retry-after", until)]).await;
    assert_waited(&seen, 20.0, until);
}

#[tokio::test(start_paused = true)]
async fn milliseconds_are_waited_to_the_millisecond() {
    for name in ["retry-after-ms", "x-ms-retry-after-ms"] {
        let seen = call(patient(), &[(name, b"2500.5"), ("retry-after", b"3")]).await;
        assert_waited(&seen, 2.5005, b"2500.5");
        let seen = call(patient(), &[(name, b"1e400"), ("retry-after", b"3")]).await;
        assert_waited(&seen, 3.0, b"3");
        let nines = [b'9'; 40];
        let seen = call(patient(), &[(name, &nines), ("retry-after", b"3")]).await;
        assert_given_up(&seen, &nines);
    }
    let seen = call(patient(), &[("grpc-retry-pushback-ms", b"2500")]).await;
    assert_waited(&seen, 2.5, b"2500");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_forbids_a_further_try_gets_none() {
    for (name, value) in [
        ("x-should-retry", &b"false"[..]),
        ("grpc-retry-pushback-ms", b"-1"),
        ("grpc-retry-pushback-ms", b"soon"),
        ("grpc-retry-pushback-ms", b"99999999999999999999"),
    ] {
        let seen = call(patient(), &[(name, value), ("retry-after", b"3")]).await;
        assert_times(&seen.sent, &[0.0]);
        assert_eq!(seen.stopped, Some(Stopped::NotRetryable), "{name}");
        assert_eq!(seen.answer.status(), 503);
    }
}

#[tokio::test(start_paused = true)]
async fn a10_a_wait_beyond_the_deadline_ends_the_call_at_once() {
    for (value, sent) in [
        (&b"60"[..], &[0.0][..]),
        (b"30", &[0.0]),
        (b"20", &[0.0, 20.0]),
        (b"Sun, 29 Nov 2026 12:01:00 GMT", &[0.0]),
        (b"Sun, 29 Nov 2026 12:00:20 GMT", &[0.0, 20.0]),
    ] {
        let policy = patient().deadline(secs(30.0));
        let seen = call(policy, &[("retry-after", value)]).await;
        assert_times(&seen.sent, sent);
        let late = sent.len() == 1;
        assert_eq!(seen.stopped, late.then_some(Stopped::Deadline));
        assert_times(&[seen.ended], &sent[sent.len() - 1..]);
        // The server's own word reaches the caller.
        let word = seen.answer.headers().get("retry-after");
        assert_eq!(word.is_some(), late);
    }
}
