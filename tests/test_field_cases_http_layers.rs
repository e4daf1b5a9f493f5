//! Field cases of the HTTP layers: deadlines in headers as numbers, and each
//! layer over a service whose readiness is a reservation. A test's name starts
//! with the case's id.

#![cfg(feature = "http")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod support;

use std::convert::Infallible;
use std::num::NonZeroU32;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use steadfast::Deadline;
use steadfast::ServiceBuilderExt;
use steadfast::http::{
    AnswerErrorsLayer, AttemptSpanLayer, DeadlineHeader, HttpClassifier, InboundDeadlineLayer,
    LookLayer, OutboundDeadlineLayer, ReplayLayer, ShedLayer, WatchBodyLayer,
};
use support::*;
use tower::limit::ConcurrencyLimit;
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

/// What a handler behind `layer` is given of its caller's time, or the status
/// that is answered in its place.
async fn granted(
    layer: &InboundDeadlineLayer,
    headers: &[(&'static str, &[u8])],
) -> Result<Option<Duration>, StatusCode> {
    let handler = service_fn(|_: Request<()>| async {
        let left = Deadline::current().map(Deadline::remaining);
        let mut answer = Response::new(());
        answer.extensions_mut().insert(left);
        Ok::<_, Infallible>(answer)
    });
    let mut request = Request::new(());
    for (name, value) in headers {
        let value = HeaderValue::from_bytes(value).unwrap();
        request.headers_mut().append(*name, value);
    }
    let service = ServiceBuilder::new().layer(layer).service(handler);
    let answer = service.oneshot(request).await.unwrap();
    match answer.extensions().get::<Option<Duration>>() {
        Some(left) => Ok(*left),
        None => Err(answer.status()),
    }
}

fn grpc() -> InboundDeadlineLayer {
    InboundDeadlineLayer::uncapped().trusting(DeadlineHeader::grpc())
}

#[tokio::test(start_paused = true)]
async fn a08_every_unit_is_granted_to_the_nanosecond() {
    for (value, left) in [
        (&b"1H"[..], Duration::from_secs(3600)),
        (b"1M", Duration::from_secs(60)),
        (b"1S", Duration::from_secs(1)),
        (b"1m", Duration::from_millis(1)),
        (b"1u", Duration::from_micros(1)),
        (b"1n", Duration::from_nanos(1)),
        (b"00000001S", Duration::from_secs(1)),
        (b"99999999n", Duration::from_nanos(99_999_999)),
        (b"99999999u", Duration::from_micros(99_999_999)),
        (b"99999999m", Duration::from_millis(99_999_999)),
        (b"99999999S", Duration::from_secs(99_999_999)),
        (b"99999999M", Duration::from_secs(5_999_999_940)),
        (b"10000000n", Duration::from_millis(10)),
        (b"00000010H", Duration::from_secs(36_000)),
    ] {
        let seen = granted(&grpc(), &[("grpc-timeout", value)]).await;
        let value = String::from_utf8_lossy(value);
        assert_eq!(seen, Ok(Some(left)), "{value}");
    }
}

#[tokio::test(start_paused = true)]
async fn a08_eleven_thousand_years_are_no_short_time() {
    // More than the clock can hold is no limit; a cap still is one.
    let longest = [("grpc-timeout", &b"99999999H"[..])];
    assert_eq!(granted(&grpc(), &longest).await, Ok(None));
    let capped = InboundDeadlineLayer::capped(secs(3.0)).trusting(DeadlineHeader::grpc());
    assert_eq!(granted(&capped, &longest).await, Ok(Some(secs(3.0))));
    let capped = InboundDeadlineLayer::capped(Duration::MAX).trusting(DeadlineHeader::grpc());
    assert_eq!(granted(&capped, &longest).await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn a08_what_is_invalid_leaves_the_cap_and_nothing_is_unlimited() {
    let capped = InboundDeadlineLayer::capped(secs(3.0)).trusting(DeadlineHeader::grpc());
    for value in [
        &b"100000000n"[..],
        b"000000001S",
        b"999999999H",
        b"+5S",
        b"-5S",
        b"-0S",
        b"5",
        b"S",
        b"",
        b" ",
        b"5s",
        b"5h",
        b"5D",
        b"5N",
        b"5U",
        b"5 S",
        b"5\tS",
        b"5.0S",
        b"5,0S",
        b".5S",
        b"5Sx",
        b"5SS",
        b"S5",
        b"0x5S",
        b"1e3S",
        b"NaNS",
        b"infS",
        b"\xd9\xa5S",
        b"5\xef\xbc\xb3",
        b"\xff\xfe",
    ] {
        let seen = granted(&capped, &[("grpc-timeout", value)]).await;
        let value = String::from_utf8_lossy(value);
        assert_eq!(seen, Ok(Some(secs(3.0))), "{value:?}");
    }
    for value in [&b"0H"[..], b"0M", b"0S", b"0m", b"0u", b"0n", b"00000000S"] {
        for layer in [&capped, &grpc()] {
            let seen = granted(layer, &[("grpc-timeout", value)]).await;
            assert_eq!(seen, Err(StatusCode::GATEWAY_TIMEOUT));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a08_of_several_lines_the_least_that_can_be_read_is_granted() {
    let line = |value: &'static [u8]| ("grpc-timeout", value);
    for (lines, left) in [
        (&[line(b"5S"), line(b"2S")][..], Ok(Some(secs(2.0)))),
        (&[line(b"2S"), line(b"5S")], Ok(Some(secs(2.0)))),
        (&[line(b"soon"), line(b"5S")], Ok(Some(secs(5.0)))),
        (&[line(b"5S"), line(b"-1S")], Ok(Some(secs(5.0)))),
        (&[line(b"-1S"), line(b"")], Ok(None)),
        (
            &[line(b"5S"), line(b"0n")],
            Err(StatusCode::GATEWAY_TIMEOUT),
        ),
    ] {
        assert_eq!(granted(&grpc(), lines).await, left, "{lines:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a08_other_forms_take_digits_and_never_wrap() {
    let form = DeadlineHeader::millis(HeaderName::from_static("x-left-ms"));
    let layer = InboundDeadlineLayer::capped(secs(3.0)).trusting(form);
    for (value, left) in [
        (&b"1"[..], Ok(Some(Duration::from_millis(1)))),
        (b"0000000000000000000000500", Ok(Some(secs(0.5)))),
        (b"9223372036854775808", Ok(Some(secs(3.0)))),
        (b"18446744073709551616", Ok(Some(secs(3.0)))),
        (
            b"340282366920938463463374607431768211456",
            Ok(Some(secs(3.0))),
        ),
        (b"0", Err(StatusCode::GATEWAY_TIMEOUT)),
        (b"-1", Ok(Some(secs(3.0)))),
        (b"1e1", Ok(Some(secs(3.0)))),
        (b"0.5", Ok(Some(secs(3.0)))),
        (b"NaN", Ok(Some(secs(3.0)))),
    ] {
        let seen = granted(&layer, &[("x-left-ms", value)]).await;
        let value = String::from_utf8_lossy(value);
        assert_eq!(seen, left, "{value}");
    }
    // No time is granted by a cap of none.
    let none = InboundDeadlineLayer::capped(Duration::ZERO);
    assert_eq!(granted(&none, &[]).await, Err(StatusCode::GATEWAY_TIMEOUT));
}

/// What is written for the next hop, if the request is sent.
async fn written(layer: OutboundDeadlineLayer, left: Duration) -> Option<String> {
    let next_hop = service_fn(|request: Request<()>| {
        let headers: &HeaderMap = request.headers();
        let value = headers.get("grpc-timeout").cloned();
        std::future::ready(Ok::<_, Infallible>(value))
    });
    let service = ServiceBuilder::new().layer(layer).service(next_hop);
    let call = Deadline::after(left).scope(service.oneshot(Request::new(())));
    let value = call.await.ok()?;
    Some(value.unwrap().to_str().unwrap().to_owned())
}

#[tokio::test(start_paused = true)]
async fn a08_what_is_written_is_never_zero_negative_or_more_than_there_is() {
    let grpc = || OutboundDeadlineLayer::new(DeadlineHeader::grpc());
    for (layer, left, expected) in [
        (grpc(), Duration::from_nanos(1), Some("1n")),
        (grpc(), secs(0.1), Some("100000u")),
        (grpc(), Duration::ZERO, None),
        (grpc().reserving(secs(1.0)), secs(3.0), Some("2000000u")),
        (grpc().reserving(secs(1.0)), secs(1.0), None),
        (grpc().reserving(secs(1.0)), secs(0.5), None),
        (grpc().reserving(Duration::MAX), secs(3.0), None),
    ] {
        let seen = written(layer, left).await;
        assert_eq!(seen.as_deref(), expected, "{left:?}");
    }
}

/// A hundred requests one after another, each on a fresh clone that is made
/// ready, called and dropped, over a service of which one call runs at a time.
macro_rules! a_hundred_fresh_clones {
    ($name:ident, $layers:expr) => {
        #[tokio::test(start_paused = true)]
        async fn $name() {
            let inner = service_fn(|_: Request<_>| async {
                Ok::<_, Infallible>(Response::new(Full::<bytes::Bytes>::from("ok")))
            });
            let client = $layers.service(ConcurrencyLimit::new(inner, 1));
            for _ in 0..100 {
                let mut fresh = client.clone();
                let request = Request::new(Full::<bytes::Bytes>::from("abc"));
                let ready = fresh.ready().await.unwrap();
                assert_eq!(ready.call(request).await.unwrap().status(), 200);
            }
        }
    };
}

a_hundred_fresh_clones!(
    a20_a_deadline_from_a_header_works_over_a_concurrency_limit,
    ServiceBuilder::new().layer(InboundDeadlineLayer::capped(secs(3.0)))
);
a_hundred_fresh_clones!(
    a20_a_deadline_into_a_header_works_over_a_concurrency_limit,
    ServiceBuilder::new().layer(OutboundDeadlineLayer::new(DeadlineHeader::grpc()))
);
a_hundred_fresh_clones!(
    a20_shedding_works_over_a_concurrency_limit,
    ServiceBuilder::new().layer(ShedLayer::new(NonZeroU32::MIN))
);
a_hundred_fresh_clones!(
    a20_replayed_bodies_work_over_a_concurrency_limit,
    ServiceBuilder::new().layer(ReplayLayer::new(0))
);
a_hundred_fresh_clones!(
    a20_watched_bodies_work_over_a_concurrency_limit,
    ServiceBuilder::new().layer(WatchBodyLayer::new().first_byte(Duration::ZERO))
);
a_hundred_fresh_clones!(
    a20_looking_into_bodies_works_over_a_concurrency_limit,
    ServiceBuilder::new().layer(LookLayer::new().within(Duration::ZERO))
);
a_hundred_fresh_clones!(
    a20_spans_of_attempts_work_over_a_concurrency_limit,
    ServiceBuilder::new().layer(AttemptSpanLayer::new())
);
a_hundred_fresh_clones!(
    a20_the_full_http_stack_works_over_a_concurrency_limit,
    ServiceBuilder::new()
        .layer(InboundDeadlineLayer::capped(secs(3.0)))
        .layer(AnswerErrorsLayer::new())
        .layer(ReplayLayer::default())
        .resilience(
            steadfast::Policy::builder("case")
                .classify(HttpClassifier::new())
                .build()
                .unwrap()
        )
);
