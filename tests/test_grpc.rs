//! What gRPC statuses say of an attempt, and errors as statuses. Nothing here
//! goes over a wire.

#![cfg(feature = "grpc")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

use std::error::Error as StdError;
use std::future::{Ready, ready};
use std::io;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use steadfast::classify::classify_fn;
use steadfast::grpc::{
    self, GrpcClassifier, Idempotent, StatusHints, StatusLayer, judge_trailers, verdict_of,
};
use steadfast::http::{ReplayBody, Sealed};
use steadfast::{
    Again, Backoff, BreakerConfig, Classify, Error, Health, Policy, PolicyBuilder, Reason,
    RefusalNotice, Replay, Scope, ServiceBuilderExt, Stopped, Verdict, Work,
};
use tokio::time::sleep;
use tonic::metadata::{BinaryMetadataValue, MetadataMap};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

const DETAILS: &str = "grpc-status-details-bin";
const PUSHBACK: &str = "grpc-retry-pushback-ms";

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let name = HeaderName::try_from(*name).unwrap();
        headers.append(name, HeaderValue::try_from(*value).unwrap());
    }
    headers
}

/// The status and its details as a server writes them.
fn written(status: &Status) -> HeaderMap {
    let mut headers = HeaderMap::new();
    status.add_header(&mut headers).unwrap();
    headers
}

fn hints(headers: &HeaderMap) -> StatusHints {
    StatusHints::read(headers, SystemTime::now())
}

fn retry_info(delay: Duration) -> Status {
    Status::with_error_details(
        Code::Unavailable,
        "",
        ErrorDetails::with_retry_info(Some(delay)),
    )
}

/// Details as they are on the wire, of these encoded bytes.
fn details(bytes: &[u8]) -> HeaderMap {
    let mut metadata = MetadataMap::new();
    metadata.insert_bin(DETAILS, BinaryMetadataValue::from_bytes(bytes));
    metadata.into_headers()
}

/// A `google.rpc.Status` that holds a `RetryInfo` of so many seconds and
/// nanoseconds, whatever they are.
fn raw_retry_info(seconds: i64, nanos: i32) -> Vec<u8> {
    let mut duration = Vec::new();
    field_varint(&mut duration, 1, seconds as u64);
    field_varint(&mut duration, 2, i64::from(nanos) as u64);
    let mut info = Vec::new();
    field_bytes(&mut info, 1, &duration);
    let mut any = Vec::new();
    field_bytes(&mut any, 1, b"type.googleapis.com/google.rpc.RetryInfo");
    field_bytes(&mut any, 2, &info);
    let mut status = Vec::new();
    field_varint(&mut status, 1, 14);
    field_bytes(&mut status, 3, &any);
    status
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8 & 0x7f) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn field_varint(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3);
    varint(out, value);
}

fn field_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

// ---- the table of codes --------------------------------------------------------

#[test]
fn every_code_has_its_verdict() {
    use Again::{AfterDelay, Never};
    use Health::{Failing, Neutral, Ok};
    use Work::{Done, NotDone, Unknown};

    let rows = [
        (Code::Ok, "OK", Never, Ok, Done),
        (Code::Cancelled, "CANCELLED", Never, Neutral, Unknown),
        (Code::Unknown, "UNKNOWN", AfterDelay, Failing, Unknown),
        (
            Code::InvalidArgument,
            "INVALID_ARGUMENT",
            Never,
            Ok,
            NotDone,
        ),
        (
            Code::DeadlineExceeded,
            "DEADLINE_EXCEEDED",
            AfterDelay,
            Failing,
            Unknown,
        ),
        (Code::NotFound, "NOT_FOUND", Never, Ok, NotDone),
        (Code::AlreadyExists, "ALREADY_EXISTS", Never, Ok, NotDone),
        (
            Code::PermissionDenied,
            "PERMISSION_DENIED",
            Never,
            Neutral,
            NotDone,
        ),
        (
            Code::ResourceExhausted,
            "RESOURCE_EXHAUSTED",
            AfterDelay,
            Neutral,
            NotDone,
        ),
        (
            Code::FailedPrecondition,
            "FAILED_PRECONDITION",
            Never,
            Ok,
            NotDone,
        ),
        (Code::Aborted, "ABORTED", Never, Ok, NotDone),
        (Code::OutOfRange, "OUT_OF_RANGE", Never, Ok, NotDone),
        (Code::Unimplemented, "UNIMPLEMENTED", Never, Ok, NotDone),
        (Code::Internal, "INTERNAL", AfterDelay, Failing, Unknown),
        (
            Code::Unavailable,
            "UNAVAILABLE",
            AfterDelay,
            Failing,
            Unknown,
        ),
        (Code::DataLoss, "DATA_LOSS", Never, Failing, Unknown),
        (
            Code::Unauthenticated,
            "UNAUTHENTICATED",
            Never,
            Neutral,
            NotDone,
        ),
    ];
    assert_eq!(rows.len(), 17);
    for (number, (code, name, again, health, work)) in rows.into_iter().enumerate() {
        assert_eq!(code as usize, number);
        let verdict = verdict_of(code, StatusHints::NONE);
        let seen = (verdict.again(), verdict.health(), verdict.work());
        assert_eq!(seen, (again, health, work), "{name}");
        assert_eq!(verdict.reason(), Reason::Text(name));
        // The same from a head or from trailers.
        let status = headers(&[("grpc-status", &number.to_string())]);
        assert_eq!(judge_trailers(&status), verdict, "{name}");
    }
}

#[test]
fn a_wait_goes_with_every_code_that_may_be_tried_again() {
    let wait = Duration::from_millis(250);
    let asked = hints(&headers(&[(PUSHBACK, "250")]));
    for number in 0..17 {
        let code = Code::from_i32(number);
        let without = verdict_of(code, StatusHints::NONE);
        let with = verdict_of(code, asked);
        let kept = (without.again() == Again::AfterDelay).then_some(wait);
        assert_eq!(with.hint(), kept, "{code:?}");
        assert_eq!(with.again(), without.again(), "{code:?}");
        assert_eq!(with.health(), without.health(), "{code:?}");
        if code == Code::Unavailable {
            assert_eq!(with.work(), Work::NotDone, "turned away to protect itself");
        } else {
            assert_eq!(with.work(), without.work(), "{code:?}");
        }
    }
}

#[test]
fn a_pushback_that_forbids_it_ends_the_retries_of_every_code() {
    let forbids = hints(&headers(&[(PUSHBACK, "-1")]));
    for number in 0..17 {
        let code = Code::from_i32(number);
        let verdict = verdict_of(code, forbids);
        assert_eq!(verdict.again(), Again::Never, "{code:?}");
        assert_eq!(
            verdict.health(),
            verdict_of(code, StatusHints::NONE).health()
        );
    }
}

#[test]
fn a_code_that_is_none_counts_as_unknown() {
    for status in [
        "17",
        "99",
        "-1",
        "",
        "abc",
        "014",
        "1.0",
        "18446744073709551616",
    ] {
        let verdict = judge_trailers(&headers(&[("grpc-status", status)]));
        assert_eq!(verdict.reason(), Reason::Text("UNKNOWN"), "{status:?}");
        assert_eq!(verdict.health(), Health::Failing);
    }
}

#[test]
fn a_stream_that_ends_without_a_status_was_cut_off() {
    let verdict = judge_trailers(&HeaderMap::new());
    assert_eq!(verdict.health(), Health::Failing);
    assert_eq!(verdict.work(), Work::Unknown);
}

// ---- hints -----------------------------------------------------------------------

#[test]
fn pushback_rows() {
    let ms = |ms| Some(Duration::from_millis(ms));
    for (values, wait, forbids) in [
        (&["0"][..], ms(0), false),
        (&["1"], ms(1), false),
        (&["250"], ms(250), false),
        (&[" 250 "], ms(250), false),
        (&["2147483647"], ms(2_147_483_647), false),
        // Not a signed number of 32 bits, or not one value.
        (&["-1"], None, true),
        (&["-0"], None, true),
        (&["-2147483648"], None, true),
        (&["2147483648"], None, true),
        (&["99999999999999999999"], None, true),
        (&[""], None, true),
        (&["+5"], None, true),
        (&["1.5"], None, true),
        (&["1e3"], None, true),
        (&["soon"], None, true),
        (&["5", "5"], None, true),
        (&["5", "-1"], None, true),
    ] {
        let pairs: Vec<_> = values.iter().map(|value| (PUSHBACK, *value)).collect();
        let hints = hints(&headers(&pairs));
        assert_eq!(hints.wait(), wait, "{values:?}");
        assert_eq!(hints.forbids(), forbids, "{values:?}");
    }
    let mut bytes = HeaderMap::new();
    bytes.insert(PUSHBACK, HeaderValue::from_bytes(b"\xff\xfe").unwrap());
    assert!(hints(&bytes).forbids());
    assert_eq!(hints(&HeaderMap::new()), StatusHints::NONE);
}

#[test]
fn retry_info_rows() {
    let century = Duration::from_secs(100 * 365 * 86_400);
    for (seconds, nanos, wait) in [
        (3, 0, Some(Duration::from_secs(3))),
        (0, 1, Some(Duration::from_nanos(1))),
        (2, 500_000_000, Some(Duration::from_millis(2500))),
        (century.as_secs() as i64, 0, Some(century)),
        // None asks for a wait.
        (0, 0, None),
        (-1, 0, None),
        (0, -1, None),
        (i64::MIN, i32::MIN, None),
    ] {
        let read = hints(&details(&raw_retry_info(seconds, nanos)));
        assert_eq!(read.wait(), wait, "{seconds} s {nanos} ns");
        assert!(!read.forbids());
    }
    // Beyond what the type allows: large, never wrapped.
    for (seconds, nanos) in [(i64::MAX, i32::MAX), (315_576_000_001, 0)] {
        let read = hints(&details(&raw_retry_info(seconds, nanos)));
        assert!(
            read.wait() > Some(century),
            "{seconds} s {nanos} ns: {read:?}"
        );
    }
}

#[test]
fn details_that_cannot_be_read_are_passed_over() {
    let good = raw_retry_info(3, 0);
    let base64 = details(&good)[DETAILS].to_str().unwrap().to_owned();
    let unpadded = base64.trim_end_matches('=');
    let padded = format!("{unpadded}{}", "=".repeat((4 - unpadded.len() % 4) % 4));
    for text in [unpadded, &padded] {
        let read = hints(&headers(&[(DETAILS, text)]));
        assert_eq!(read.wait(), Some(Duration::from_secs(3)), "{text}");
    }
    for text in [
        "",
        "=",
        "====",
        "!",
        "YWJj!",
        "-_-_",
        "A",
        &base64[1..],
        "a b c d",
    ] {
        let read = hints(&headers(&[(DETAILS, text)]));
        assert_eq!(read, StatusHints::NONE, "{text:?}");
    }
    for cut in 1..good.len() {
        // A panic would be the failure; most prefixes do not decode.
        let _ = hints(&details(&good[..cut]));
        let flipped: Vec<u8> = good
            .iter()
            .enumerate()
            .map(|(at, byte)| if at == cut { !byte } else { *byte })
            .collect();
        let _ = hints(&details(&flipped));
    }
    let mut bytes = HeaderMap::new();
    bytes.insert(DETAILS, HeaderValue::from_bytes(b"\xff\xfe").unwrap());
    assert_eq!(hints(&bytes), StatusHints::NONE);
    // Other details than a RetryInfo.
    let other = Status::with_error_details(Code::Unavailable, "", ErrorDetails::new());
    assert_eq!(hints(&written(&other)), StatusHints::NONE);
}

#[test]
fn of_two_waits_the_longer_counts_and_who_forbids_wins() {
    for (pushback, info, wait) in [("250", 3000, 3000), ("5000", 3000, 5000)] {
        let mut both = written(&retry_info(Duration::from_millis(info)));
        both.insert(PUSHBACK, HeaderValue::from_static(pushback));
        assert_eq!(hints(&both).wait(), Some(Duration::from_millis(wait)));
    }
    let mut both = written(&retry_info(Duration::from_secs(3)));
    both.insert(PUSHBACK, HeaderValue::from_static("-1"));
    assert!(hints(&both).forbids());
    assert_eq!(hints(&both).wait(), Some(Duration::from_secs(3)));
}

#[test]
fn a_status_that_a_client_has_made_carries_the_same_hints() {
    let mut sent = written(&retry_info(Duration::from_secs(3)));
    sent.insert(PUSHBACK, HeaderValue::from_static("5000"));
    let status = Status::from_header_map(&sent).unwrap();
    assert_eq!(StatusHints::of(&status), hints(&sent));
    assert_eq!(
        StatusHints::of(&status).wait(),
        Some(Duration::from_secs(5))
    );
}

// ---- the classifier ----------------------------------------------------------------

type Answer = Response<()>;

fn answer(status: u16, pairs: &[(&str, &str)]) -> Answer {
    let mut answer = Response::new(());
    *answer.status_mut() = http::StatusCode::from_u16(status).unwrap();
    *answer.headers_mut() = headers(pairs);
    answer
}

fn judge(result: Result<&Answer, &(dyn StdError + Send + Sync + 'static)>) -> Verdict {
    Classify::<Request<()>, Answer>::classify(&GrpcClassifier::new(), &false, result)
}

#[test]
fn a_head_is_judged_by_its_status_and_else_by_that_of_http() {
    for (status, pairs, expected) in [
        (200, &[][..], Verdict::success()),
        (200, &[("grpc-status", "0")], Verdict::success()),
        (200, &[("grpc-status", "14")], Verdict::transient()),
        (200, &[("grpc-status", "5")], Verdict::terminal()),
        // The code goes before the status of whatever stands in between.
        (503, &[("grpc-status", "5")], Verdict::terminal()),
        (400, &[], Verdict::transient()),
        (401, &[], Verdict::blocked()),
        (403, &[], Verdict::blocked()),
        (404, &[], Verdict::terminal()),
        (429, &[], Verdict::throttled(None)),
        (502, &[], Verdict::transient()),
        (503, &[], Verdict::transient()),
        (504, &[], Verdict::transient()),
        (500, &[], Verdict::transient()),
        (302, &[], Verdict::transient()),
        (204, &[], Verdict::transient()),
        (
            503,
            &[("retry-after", "3")],
            Verdict::overloaded(Some(Duration::from_secs(3))),
        ),
        (
            429,
            &[("retry-after", "3")],
            Verdict::throttled(Some(Duration::from_secs(3))),
        ),
    ] {
        let verdict = judge(Ok(&answer(status, pairs)));
        assert_eq!(
            verdict,
            expected.because(verdict.reason()),
            "{status} {pairs:?}"
        );
    }
}

#[test]
fn no_call_may_be_sent_twice_unless_its_path_or_its_extension_says_so() {
    let to = |path: &str, said: Option<bool>| {
        let mut request = Request::post(path).body(()).unwrap();
        if let Some(said) = said {
            request.extensions_mut().insert(Idempotent(said));
        }
        request
    };
    let none = GrpcClassifier::new();
    let gets = GrpcClassifier::new().idempotent(|path| path == "/shop.Inventory/Get");
    for (path, said, by_none, by_gets) in [
        ("/shop.Inventory/Get", None, false, true),
        ("/shop.Inventory/Put", None, false, false),
        ("/shop.Inventory/Get", Some(false), false, false),
        ("/shop.Inventory/Put", Some(true), true, true),
    ] {
        let request = to(path, said);
        let (memo, expected) = (none.memo(&request), by_none);
        assert_eq!(Replay::<Request<()>>::idempotent(&none, &memo), expected);
        let (memo, expected) = (gets.memo(&request), by_gets);
        assert_eq!(Replay::<Request<()>>::idempotent(&gets, &memo), expected);
        let copy = gets.copy(&request).unwrap();
        assert_eq!(gets.memo(&copy), memo, "a copy says the same");
        assert_eq!(copy.uri(), request.uri());
    }
}

#[tokio::test]
async fn a_body_that_has_been_read_is_not_sent_as_a_copy() {
    let mut request = Request::new(ReplayBody::new(Full::<Bytes>::from("message"), 1024));
    let classifier = GrpcClassifier::new();
    assert!(classifier.is_intact(&request));
    request.body_mut().frame().await.unwrap().unwrap();
    assert!(!classifier.is_intact(&request));
}

#[test]
fn errors_of_the_channel_and_statuses_are_judged() {
    let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
    let unavailable = Status::from_header_map(&headers(&[("grpc-status", "14"), (PUSHBACK, "7")]));
    let mut local = Status::unavailable("made here");
    local.set_source(std::sync::Arc::new(refused()));
    for (error, health, work, hint) in [
        (
            Box::new(refused()) as Box<dyn StdError + Send + Sync>,
            Health::Failing,
            Work::NotDone,
            None,
        ),
        (
            Box::new(tonic::ConnectError("dns".into())),
            Health::Failing,
            Work::NotDone,
            None,
        ),
        (
            Box::new(tonic::TimeoutExpired(())),
            Health::Failing,
            Work::Unknown,
            None,
        ),
        (
            Box::new(Status::not_found("")),
            Health::Ok,
            Work::NotDone,
            None,
        ),
        (
            Box::new(unavailable.unwrap()),
            Health::Failing,
            Work::NotDone,
            Some(Duration::from_millis(7)),
        ),
        // Its code was chosen on this side; its source says more.
        (Box::new(local), Health::Failing, Work::NotDone, None),
    ] {
        for verdict in [judge(Err(&*error)), grpc::judge::<()>(Err(&*error))] {
            let seen = (verdict.health(), verdict.work(), verdict.hint());
            assert_eq!(seen, (health, work, hint), "{error:?}");
        }
    }
    assert_eq!(grpc::judge(Ok(&())), Verdict::success());
}

#[test]
fn an_answer_with_which_the_retries_ended_is_final_for_everyone() {
    let classify = GrpcClassifier::new();
    let mut sealed = answer(200, &[("grpc-status", "14"), (PUSHBACK, "2500")]);
    let stopped = Stopped::AttemptsExhausted;
    Classify::<Request<()>, Answer>::seal(&classify, &mut sealed, &stopped);
    assert_eq!(sealed.headers()[PUSHBACK], "-1");
    assert_eq!(sealed.headers()["retry-after"], "3", "the wait is kept");
    assert_eq!(
        sealed.extensions().get::<Sealed>().unwrap().stopped(),
        stopped
    );

    // A stack further out in this process takes it for what it is.
    let verdict = judge(Ok(&sealed));
    assert_eq!(verdict, Verdict::refused_below());
    // One in another process, which sees the headers alone, stops as well.
    let travelled = answer(200, &[("grpc-status", "14"), (PUSHBACK, "-1")]);
    let verdict = judge(Ok(&travelled));
    assert_eq!(verdict.again(), Again::Never);
    assert_eq!(verdict.health(), Health::Failing);
    // And an answer that stays an answer does so.
    let mut answered = answer(200, &[("grpc-status", "5")]);
    Classify::<Request<()>, Answer>::seal(&classify, &mut answered, &stopped);
    assert_eq!(judge(Ok(&answered)).health(), Health::Ok);
}

/// A service that answers the same again and again, and counts.
async fn sends(max_attempts: u32, request: Request<()>, pairs: &'static [(&str, &str)]) -> usize {
    let sent = std::cell::Cell::new(0);
    let policy = bare()
        .max_attempts(max_attempts)
        .classify(GrpcClassifier::new().idempotent(|path| path == "/shop.Inventory/Get"))
        .build()
        .unwrap();
    let service = ServiceBuilder::new()
        .resilience(policy)
        .service(service_fn(|_: Request<()>| {
            sent.set(sent.get() + 1);
            ready(Ok::<_, io::Error>(answer(200, pairs)))
        }));
    service.oneshot(request).await.unwrap();
    sent.get()
}

#[tokio::test(start_paused = true)]
async fn only_what_may_be_repeated_is_sent_again() {
    let get = || Request::post("/shop.Inventory/Get").body(()).unwrap();
    let put = || Request::post("/shop.Inventory/Put").body(()).unwrap();
    let unavailable = &[("grpc-status", "14")];
    assert_eq!(sends(3, get(), unavailable).await, 3);
    assert_eq!(
        sends(3, put(), unavailable).await,
        1,
        "unknown whether done"
    );
    let pushed_back = &[("grpc-status", "14"), (PUSHBACK, "10")];
    assert_eq!(sends(3, put(), pushed_back).await, 3, "certainly not done");
    assert_eq!(sends(3, put(), &[("grpc-status", "8")]).await, 3);
    let forbidden = &[("grpc-status", "14"), (PUSHBACK, "-1")];
    assert_eq!(sends(3, get(), forbidden).await, 1);
    assert_eq!(sends(3, get(), &[("grpc-status", "10")]).await, 1);

    let mut said = put();
    said.extensions_mut().insert(Idempotent(true));
    assert_eq!(sends(3, said, unavailable).await, 3);
    let once = Scope::current().not_idempotent();
    assert_eq!(once.wrap(sends(3, get(), unavailable)).await, 1);
}

// ---- errors as statuses ---------------------------------------------------------------

const SECRET: &str = "postgres://admin:hunter2@10.0.0.7";

fn bare() -> PolicyBuilder {
    Policy::builder("inventory")
        .no_deadline()
        .no_attempt_timeout()
        .max_attempts(3)
        .backoff(Backoff::none())
        .no_retry_budget()
        .no_breaker()
}

/// A breaker that one failure opens for so long.
fn one_strike(open_time: Duration) -> BreakerConfig {
    BreakerConfig::consecutive(1)
        .open_time(open_time)
        .open_jitter(0.0)
}

async fn fail(policy: &Policy) -> Error {
    let call = policy.call(|| async { Err::<(), _>(io::Error::other(SECRET)) });
    call.await.unwrap_err()
}

/// What of the status goes over the wire, and comes out of it.
fn over_the_wire(status: &Status) -> Status {
    let headers = written(status);
    let text = format!("{headers:?}");
    assert!(!text.contains("hunter2"), "told the source: {text}");
    let details = format!("{:?}", String::from_utf8_lossy(status.details()));
    assert!(!details.contains("hunter2"), "told the source: {details}");
    Status::from_header_map(&headers).unwrap()
}

fn told(error: Error) -> Status {
    over_the_wire(&Status::from(error))
}

fn is_final(status: &Status) -> bool {
    status
        .metadata()
        .get(PUSHBACK)
        .is_some_and(|value| value == "-1")
}

fn reason(status: &Status) -> String {
    let info = status.get_details_error_info().unwrap();
    assert_eq!(info.domain, "steadfast");
    info.reason
}

fn wait(status: &Status) -> Option<Duration> {
    status
        .get_details_retry_info()
        .and_then(|info| info.retry_delay)
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_unavailable_with_its_wire_form_and_the_wait() {
    let policy = bare()
        .breaker(one_strike(Duration::from_millis(2100)))
        .build()
        .unwrap();
    fail(&policy).await;
    let error = fail(&policy).await;
    let refusal = *error.refusal().unwrap();
    for status in [told(error), over_the_wire(&Status::from(refusal))] {
        assert_eq!(status.code(), Code::Unavailable);
        assert!(status.message().contains("`inventory`"), "{status}");
        assert!(is_final(&status));
        assert_eq!(wait(&status), Some(Duration::from_millis(2100)));
        assert_eq!(reason(&status), "DEPENDENCY_TEMPORARILY_UNAVAILABLE");
        let info = status.get_details_error_info().unwrap().metadata;
        for (key, value) in [
            ("code", RefusalNotice::CODE),
            ("dependency", "inventory"),
            ("safe_action", "defer_item"),
            ("prohibited_action", "score_item_as_failed"),
            ("next_status_check_after_seconds", "3"),
        ] {
            assert_eq!(info.get(key).map(String::as_str), Some(value), "{key}");
        }
        assert_eq!(info["operation_id"].len(), 36);
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_our_own_is_resource_exhausted() {
    let breaker = BreakerConfig::consecutive(5).concurrency_limit(1);
    let policy = bare().breaker(breaker).build().unwrap();
    let held = policy.breaker().unwrap().admit().unwrap();
    let status = told(fail(&policy).await);
    drop(held);
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(is_final(&status));
    assert_eq!(wait(&status), None);
    let info = status.get_details_error_info().unwrap().metadata;
    assert!(!info.contains_key("next_status_check_after_seconds"));
}

#[tokio::test(start_paused = true)]
async fn deadlines_and_attempt_timeouts_are_deadline_exceeded() {
    let second = Duration::from_secs(1);
    for (policy, expected) in [
        (bare().deadline(second), "DEADLINE_EXCEEDED"),
        (bare().attempt_timeout(second), "ATTEMPT_TIMED_OUT"),
    ] {
        let policy = policy.build().unwrap();
        let call = policy.call(|| async {
            sleep(Duration::from_secs(60)).await;
            Ok::<_, io::Error>(())
        });
        let status = told(call.await.unwrap_err());
        assert_eq!(status.code(), Code::DeadlineExceeded);
        assert_eq!(reason(&status), expected);
        assert!(is_final(&status));
    }
}

#[tokio::test(start_paused = true)]
async fn giving_up_is_unavailable_and_a_single_attempt_is_not_final() {
    let status = told(fail(&bare().build().unwrap()).await);
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(reason(&status), "DEPENDENCY_FAILED");
    assert!(is_final(&status));
    let status = told(fail(&bare().max_attempts(1).build().unwrap()).await);
    assert_eq!(status.code(), Code::Unavailable);
    assert!(!is_final(&status));

    let rejects = bare()
        .classify(classify_fn(|_: Result<&(), _>| Verdict::blocked()))
        .build()
        .unwrap();
    let call = rejects.call(|| async { Err::<(), _>(io::Error::other(SECRET)) });
    let status = told(call.await.unwrap_err());
    assert_eq!(reason(&status), "DEPENDENCY_REJECTED");
    assert_ne!(status.code(), Code::Unknown);
}

#[tokio::test(start_paused = true)]
async fn a_status_of_the_dependency_stands() {
    let policy = bare()
        .classify(classify_fn(grpc::judge::<()>))
        .build()
        .unwrap();
    let call = policy.call(|| ready(Err::<(), _>(Status::aborted("version 7 is current"))));
    let status = told(call.await.unwrap_err());
    assert_eq!(status.code(), Code::Aborted);
    assert_eq!(status.message(), "version 7 is current");
    assert!(is_final(&status));
    assert_eq!(reason(&status), "DEPENDENCY_REJECTED");

    // With its own details.
    let own = Bytes::from(raw_retry_info(9, 0));
    let call = policy.call(|| {
        ready(Err::<(), _>(Status::with_details(
            Code::Internal,
            "broken",
            own.clone(),
        )))
    });
    let status = told(call.await.unwrap_err());
    assert_eq!(
        (status.code(), status.message()),
        (Code::Internal, "broken")
    );
    assert_eq!(wait(&status), Some(Duration::from_secs(9)));
    assert_eq!(status.details(), own);
}

#[tokio::test(start_paused = true)]
async fn a_status_that_tonic_made_of_a_broken_channel_is_no_answer() {
    let policy = bare()
        .classify(classify_fn(grpc::judge::<()>))
        .build()
        .unwrap();
    let call = policy.call(|| {
        let broken = io::Error::new(io::ErrorKind::ConnectionReset, SECRET);
        let mut status = Status::unknown(format!("transport error: {broken}"));
        status.set_source(std::sync::Arc::new(broken));
        ready(Err::<(), _>(status))
    });
    let status = told(call.await.unwrap_err());
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(reason(&status), "DEPENDENCY_FAILED");
}

#[tokio::test(start_paused = true)]
async fn a_stack_around_sees_through_a_status() {
    let inner = bare().build().unwrap();
    let outer = bare()
        .classify(classify_fn(grpc::judge::<()>))
        .build()
        .unwrap();
    let mut asked = 0;
    let call = outer.call(|| {
        asked += 1;
        let inner = inner.clone();
        async move { Err::<(), Status>(fail(&inner).await.into()) }
    });
    let error = call.await.unwrap_err();
    assert_eq!(asked, 1, "the inner stack owns the retries");
    let status = error.source().unwrap().downcast_ref::<Status>().unwrap();
    let inner = status.source().unwrap().downcast_ref::<Error>().unwrap();
    assert_eq!(inner.attempts(), 3);
    let status = told(error);
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(reason(&status), "DEPENDENCY_FAILED");
    assert!(is_final(&status));
}

// ---- the layer ---------------------------------------------------------------------------

/// A stack's error, at the readiness or at the call.
#[derive(Clone)]
struct Fails {
    policy: Policy,
    at_readiness: bool,
}

impl Service<()> for Fails {
    type Response = ();
    type Error = Error;
    type Future = Ready<Result<(), Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.at_readiness {
            return Poll::Ready(Err(self.error()));
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, (): ()) -> Self::Future {
        assert!(!self.at_readiness, "called without readiness");
        ready(Err(self.error()))
    }
}

impl Fails {
    fn error(&self) -> Error {
        let mut call = Box::pin(fail(&self.policy));
        let mut cx = Context::from_waker(std::task::Waker::noop());
        match std::future::Future::poll(call.as_mut(), &mut cx) {
            Poll::Ready(error) => error,
            Poll::Pending => panic!("refused at once"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_layer_makes_every_error_a_status_and_can_hide_the_name() {
    let policy = bare()
        .breaker(one_strike(Duration::from_secs(5)))
        .build()
        .unwrap();
    policy.breaker().unwrap().force_open("hunter2 leaked");
    for at_readiness in [false, true] {
        let policy = policy.clone();
        let fails = Fails {
            policy,
            at_readiness,
        };
        let named = ServiceBuilder::new()
            .layer(StatusLayer::new())
            .service(fails.clone());
        let status = over_the_wire(&named.oneshot(()).await.unwrap_err());
        assert_eq!(status.code(), Code::Unavailable);
        assert!(status.message().contains("inventory"));

        let unnamed = ServiceBuilder::new()
            .layer(StatusLayer::new().hide_dependency())
            .service(fails);
        let status = over_the_wire(&unnamed.oneshot(()).await.unwrap_err());
        assert_eq!(status.code(), Code::Unavailable);
        assert!(!status.message().contains("inventory"));
        let details = String::from_utf8_lossy(status.details()).into_owned();
        assert!(!details.contains("inventory"), "{details}");
    }
}
