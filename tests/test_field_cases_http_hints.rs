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
use std::time::{SystemTime, UNIX_EPOCH};

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
