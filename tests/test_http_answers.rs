//! What HTTP callers are told of errors.

#![cfg(feature = "http")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

use std::future::{Ready, ready};
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use steadfast::classify::classify_fn;
use steadfast::http::{AnswerErrorsLayer, HttpClassifier, Problem};
use steadfast::{
    Backoff, BreakerConfig, Error, Policy, PolicyBuilder, RefusalNotice, ServiceBuilderExt, Verdict,
};
use tokio::time::sleep;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};

const SECRET: &str = "postgres://admin:hunter2@10.0.0.7";

/// An answer with its body read.
struct Told {
    status: u16,
    headers: http::HeaderMap,
    document: Value,
}

impl Told {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    fn text(&self, member: &str) -> &str {
        self.document[member].as_str().unwrap()
    }
}

async fn read<B>(answer: Response<B>) -> Told
where
    B: http_body::Body<Data = Bytes, Error: std::fmt::Debug>,
{
    let (head, body) = answer.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let text = std::str::from_utf8(&body).unwrap();
    assert!(!text.contains("hunter2"), "told the source: {text}");
    Told {
        status: head.status.as_u16(),
        headers: head.headers,
        document: serde_json::from_str(text).unwrap(),
    }
}

async fn told(problem: Problem) -> Told {
    read(problem.into_response::<Full<Bytes>>()).await
}

fn bare() -> PolicyBuilder {
    Policy::builder("inventory")
        .no_deadline()
        .no_attempt_timeout()
        .max_attempts(3)
        .backoff(Backoff::none())
        .no_retry_budget()
        .no_breaker()
}

/// The error of a call whose attempts all fail with this verdict.
async fn judged(verdict: Verdict) -> Error {
    let policy = bare()
        .classify(classify_fn(move |_: Result<&(), _>| verdict))
        .build()
        .unwrap();
    let call = policy.call(|| async { Err::<(), _>(io::Error::other(SECRET)) });
    call.await.unwrap_err()
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

#[tokio::test(start_paused = true)]
async fn a_refusal_is_a_503_with_its_wire_form_and_the_wait_rounded_up() {
    let breaker = one_strike(Duration::from_millis(2100));
    let policy = bare().max_attempts(1).breaker(breaker).build().unwrap();
    fail(&policy).await;
    let error = fail(&policy).await;
    let told = told(Problem::from(&error).operation_id("item-17")).await;
    assert_eq!(told.status, 503);
    assert_eq!(
        told.header("content-type"),
        Some("application/problem+json")
    );
    assert_eq!(told.header("retry-after"), Some("3"));
    assert_eq!(told.header("x-should-retry"), Some("false"));
    assert_eq!(told.text("type"), "about:blank");
    assert_eq!(told.text("title"), "Service Unavailable");
    assert_eq!(told.document["status"], 503);
    assert!(told.text("detail").contains("`inventory`"));
    assert!(told.text("detail").contains("failed too often"));

    let notice: RefusalNotice = serde_json::from_value(told.document).unwrap();
    assert_eq!(notice, error.refusal().unwrap().notice("item-17"));
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_our_own_is_a_429() {
    let breaker = BreakerConfig::consecutive(5).concurrency_limit(1);
    let policy = bare().breaker(breaker).build().unwrap();
    let held = policy.breaker().unwrap().admit().unwrap();
    let error = fail(&policy).await;
    drop(held);
    let told = told(Problem::from(&error)).await;
    assert_eq!(told.status, 429);
    assert_eq!(told.header("retry-after"), None, "no time can be named");
    assert_eq!(told.header("x-should-retry"), Some("false"));
    assert_eq!(
        told.document["next_status_check_after_seconds"],
        Value::Null
    );
    assert!(told.text("detail").contains("in flight"));
}

#[tokio::test(start_paused = true)]
async fn a_breaker_opened_by_hand_does_not_tell_the_note() {
    let policy = bare()
        .breaker(one_strike(Duration::from_secs(5)))
        .build()
        .unwrap();
    policy
        .breaker()
        .unwrap()
        .force_open("hunter2 leaked, see INC-7");
    let error = fail(&policy).await;
    assert!(error.to_string().contains("INC-7"));
    let told = told(Problem::from(&error)).await;
    assert_eq!(told.status, 503);
    assert_eq!(told.header("retry-after"), None);
    assert!(told.text("detail").contains("by hand"));
}

#[tokio::test(start_paused = true)]
async fn a_dependency_that_we_gave_up_on_is_a_503_and_says_how_often_it_was_tried() {
    let hint = Duration::from_millis(1);
    for (verdict, wait) in [
        (Verdict::transient(), None),
        (Verdict::unreachable(), None),
        (Verdict::ambiguous(), None),
        (Verdict::overloaded(Some(hint)), Some("1")),
        (Verdict::throttled(Some(Duration::ZERO)), Some("1")),
        (Verdict::transient().never_again(), None),
        // Nobody knows what became of these, so nobody has said no.
        (Verdict::refused_below(), None),
        (Verdict::transient().never_again().no_evidence(), None),
    ] {
        let told = told(Problem::from(&judged(verdict).await)).await;
        assert_eq!(told.status, 503, "{verdict:?}");
        assert_eq!(told.text("code"), "dependency_failed");
        assert_eq!(told.text("dependency"), "inventory");
        assert_eq!(told.header("retry-after"), wait, "{verdict:?}");
        assert_eq!(told.header("x-should-retry"), Some("false"));
        assert!(told.text("detail").contains("attempt"), "{}", told.document);
        assert_eq!(told.document.get("safe_action"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_dependency_that_works_and_does_not_accept_the_request_is_a_502() {
    for verdict in [Verdict::terminal(), Verdict::blocked()] {
        let told = told(Problem::from(&judged(verdict).await)).await;
        assert_eq!(told.status, 502, "{verdict:?}");
        assert_eq!(told.text("title"), "Bad Gateway");
        assert_eq!(told.text("code"), "dependency_rejected");
        assert_eq!(told.header("x-should-retry"), Some("false"));
    }
}

#[tokio::test(start_paused = true)]
async fn deadlines_and_attempt_timeouts_are_504s() {
    let second = Duration::from_secs(1);
    for (policy, code) in [
        (bare().deadline(second), "deadline_exceeded"),
        (bare().attempt_timeout(second), "attempt_timed_out"),
    ] {
        let policy = policy.build().unwrap();
        let call = policy.call(|| async {
            sleep(Duration::from_secs(60)).await;
            Ok::<_, io::Error>(())
        });
        let told = told(Problem::from(&call.await.unwrap_err())).await;
        assert_eq!(told.status, 504);
        assert_eq!(told.text("title"), "Gateway Timeout");
        assert_eq!(told.text("code"), code);
        assert_eq!(told.header("x-should-retry"), Some("false"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_owns_no_retries_leaves_them_to_the_caller() {
    let policy = bare().max_attempts(1).build().unwrap();
    let told = told(Problem::from(&fail(&policy).await)).await;
    assert_eq!(told.status, 503);
    assert_eq!(told.header("x-should-retry"), None);
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_the_breaker_forbade_defers_the_item() {
    let policy = bare()
        .breaker(one_strike(Duration::from_secs(5)))
        .build()
        .unwrap();
    let error = fail(&policy).await;
    assert_eq!(error.attempts(), 1);
    let told = told(Problem::from(&error)).await;
    assert_eq!(told.status, 503);
    assert_eq!(told.header("retry-after"), Some("5"));
    assert_eq!(told.text("safe_action"), "defer_item");
    assert_eq!(told.text("code"), RefusalNotice::CODE);
}

#[tokio::test(start_paused = true)]
async fn the_end_that_a_stack_further_down_came_to_is_told() {
    let inner = Policy::builder("ledger").build().unwrap();
    inner.breaker().unwrap().force_open("maintenance");
    let outer = bare().build().unwrap();
    let call = outer.call(|| inner.call(|| async { Ok::<_, io::Error>(()) }));
    let error = call.await.unwrap_err();
    assert_eq!(error.refusal(), None);
    let told = told(Problem::from(&error)).await;
    assert_eq!(told.status, 503);
    assert_eq!(told.text("dependency"), "ledger");
    assert_eq!(told.text("safe_action"), "defer_item");

    let inner = Policy::builder("ledger")
        .deadline(Duration::from_secs(1))
        .build()
        .unwrap();
    let call = outer.call(|| {
        inner.call(|| async {
            sleep(Duration::from_secs(60)).await;
            Ok::<_, io::Error>(())
        })
    });
    let told = self::told(Problem::from(&call.await.unwrap_err())).await;
    assert_eq!(told.status, 504);
    assert_eq!(told.text("code"), "deadline_exceeded");
}

#[tokio::test(start_paused = true)]
async fn a_hidden_dependency_is_named_nowhere() {
    let policy = bare()
        .breaker(one_strike(Duration::from_secs(5)))
        .build()
        .unwrap();
    for error in [fail(&policy).await, fail(&policy).await] {
        let problem = Problem::from(&error).hide_dependency();
        let told = told(problem).await;
        assert!(!told.document.to_string().contains("inventory"));
        assert_eq!(told.text("dependency"), "undisclosed");
    }
}

// ---- the layer ---------------------------------------------------------------

/// A gateway over a stack whose service always fails.
async fn through<M>(layer: AnswerErrorsLayer<M>, request: Request<()>) -> Told
where
    AnswerErrorsLayer<M>: tower::Layer<
            steadfast::Resilience<FailsFn, HttpClassifier>,
            Service: Service<
                Request<()>,
                Response = Response<Full<Bytes>>,
                Error = std::convert::Infallible,
            >,
        >,
{
    let policy = bare().classify(HttpClassifier::new()).build().unwrap();
    let gateway = ServiceBuilder::new()
        .layer(layer)
        .resilience(policy)
        .service(FailsFn);
    read(gateway.oneshot(request).await.unwrap()).await
}

#[derive(Clone)]
struct FailsFn;

impl Service<Request<()>> for FailsFn {
    type Response = Response<Full<Bytes>>;
    type Error = io::Error;
    type Future = Ready<Result<Self::Response, io::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        ready(Err(io::Error::other(SECRET)))
    }
}

fn request_with(name: &str, value: &[u8]) -> Request<()> {
    let mut request = Request::new(());
    let name = HeaderName::try_from(name).unwrap();
    let value = http::HeaderValue::from_bytes(value).unwrap();
    request.headers_mut().insert(name, value);
    request
}

#[tokio::test(start_paused = true)]
async fn the_layer_answers_and_names_the_operation_as_the_request_does() {
    let told = through(
        AnswerErrorsLayer::new(),
        request_with("x-request-id", b"req-17"),
    )
    .await;
    assert_eq!(told.status, 503);
    assert_eq!(told.text("operation_id"), "req-17");
}

#[tokio::test(start_paused = true)]
async fn a_name_that_does_not_fit_is_not_taken_over() {
    let longest = [b'a'; 128];
    let told = through(
        AnswerErrorsLayer::new(),
        request_with("x-request-id", &longest),
    )
    .await;
    assert_eq!(told.text("operation_id").as_bytes(), longest);
    for value in [&b""[..], &[b'a'; 129], b"two words", b"\xff\xfe", b"a\tb"] {
        let told = through(
            AnswerErrorsLayer::new(),
            request_with("x-request-id", value),
        )
        .await;
        assert_eq!(told.text("operation_id").len(), 36, "{value:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_header_and_the_name_are_switchable() {
    let layer = AnswerErrorsLayer::new()
        .operation_id_header(HeaderName::from_static("x-correlation-id"))
        .hide_dependency();
    let told = through(layer.clone(), request_with("x-correlation-id", b"c-1")).await;
    assert_eq!(told.text("operation_id"), "c-1");
    assert_eq!(told.text("dependency"), "undisclosed");
    let told = through(layer.clone(), request_with("x-request-id", b"req-17")).await;
    assert_ne!(told.text("operation_id"), "req-17");
    let none = layer.operation_id_header(None);
    let told = through(none, request_with("x-correlation-id", b"c-1")).await;
    assert_ne!(told.text("operation_id"), "c-1");
}

#[tokio::test(start_paused = true)]
async fn a_body_of_another_kind_is_made_by_a_closure() {
    type Boxed = BoxBody<Bytes, io::Error>;
    let policy = bare().classify(HttpClassifier::new()).build().unwrap();
    let gateway = ServiceBuilder::new()
        .layer(AnswerErrorsLayer::new().body(|text: Bytes| -> Boxed {
            Full::new(text).map_err(|never| match never {}).boxed()
        }))
        .resilience(policy)
        .service(service_fn(|_: Request<()>| {
            ready(Err::<Response<Boxed>, _>(io::Error::other(SECRET)))
        }));
    let told = read(gateway.oneshot(Request::new(())).await.unwrap()).await;
    assert_eq!(told.status, 503);
}

#[tokio::test(start_paused = true)]
async fn an_answer_passes_as_it_is() {
    let policy = bare().classify(HttpClassifier::new()).build().unwrap();
    let gateway = ServiceBuilder::new()
        .layer(AnswerErrorsLayer::new())
        .resilience(policy)
        .service(service_fn(|_: Request<()>| {
            let mut answer = Response::new(Full::<Bytes>::from("no such item"));
            *answer.status_mut() = http::StatusCode::NOT_FOUND;
            ready(Ok::<_, BoxError>(answer))
        }));
    let answer = gateway.oneshot(Request::new(())).await.unwrap();
    assert_eq!(answer.status(), 404);
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(&*body, b"no such item");
}

/// Fails to become ready, as a stack's error.
#[derive(Clone)]
struct Unready(Policy);

impl Service<Request<()>> for Unready {
    type Response = Response<Full<Bytes>>;
    type Error = Error;
    type Future = Ready<Result<Self::Response, Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let call = self.0.call(|| async { Ok::<_, io::Error>(()) });
        std::pin::pin!(call).as_mut().poll(cx)
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        panic!("called without readiness");
    }
}

#[tokio::test(start_paused = true)]
async fn a_readiness_that_failed_is_answered_at_the_call() {
    let policy = bare()
        .breaker(one_strike(Duration::from_secs(5)))
        .build()
        .unwrap();
    policy.breaker().unwrap().force_open("maintenance");
    let gateway = ServiceBuilder::new()
        .layer(AnswerErrorsLayer::new())
        .service(Unready(policy));
    let told = read(gateway.oneshot(Request::new(())).await.unwrap()).await;
    assert_eq!(told.status, 503);
    assert_eq!(told.text("safe_action"), "defer_item");
}

#[cfg(feature = "axum")]
mod in_axum {
    use axum::body::Body;
    use axum::{Router, routing::get};
    use steadfast::http::{ReplayBody, ReplayLayer};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn handlers_fail_with_errors_and_refusals() {
        let policy = bare()
            .breaker(one_strike(Duration::from_millis(4001)))
            .build()
            .unwrap();
        fail(&policy).await;
        let refuses = policy.clone();
        let by_hand = policy.clone();
        let app = Router::new()
            .route(
                "/error",
                get(move || async move { Err::<(), _>(fail(&refuses).await) }),
            )
            .route(
                "/refusal",
                get(move || async move { by_hand.breaker().unwrap().admit().map(drop) }),
            );
        for path in ["/error", "/refusal"] {
            let request = Request::get(path).body(Body::empty()).unwrap();
            let told = read(app.clone().oneshot(request).await.unwrap()).await;
            assert_eq!(told.status, 503, "{path}");
            assert_eq!(told.header("retry-after"), Some("5"), "{path}");
            assert_eq!(told.text("safe_action"), "defer_item", "{path}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_router_takes_the_layer_around_a_stack() {
        let policy = bare().classify(HttpClassifier::new()).build().unwrap();
        let gateway = ServiceBuilder::new()
            .layer(AnswerErrorsLayer::new())
            .layer(ReplayLayer::default())
            .resilience(policy)
            .service(service_fn(|_: Request<ReplayBody<Body>>| {
                ready(Err::<Response<Body>, _>(io::Error::other(SECRET)))
            }));
        let app = Router::new().fallback_service(gateway);
        let request = Request::get("/").header("x-request-id", "r-1");
        let request = request.body(Body::empty()).unwrap();
        let told = read(app.oneshot(request).await.unwrap()).await;
        assert_eq!(told.status, 503);
        assert_eq!(told.text("operation_id"), "r-1");
    }
}

#[tokio::test(start_paused = true)]
async fn the_detail_says_how_often_it_was_tried_and_why_no_more() {
    let detail = async |error: &Error| told(Problem::from(error)).await.text("detail").to_owned();
    for (attempts, times) in [(1, "1 attempt"), (2, "2 attempts")] {
        let policy = bare().max_attempts(attempts).build().unwrap();
        let expected = format!("the dependency `inventory` failed after {times}: no attempts left");
        assert_eq!(detail(&fail(&policy).await).await, expected);
    }
    let unavailable = "the dependency `inventory` is temporarily unavailable, \
                       and this call was not sent to it";
    let policy = bare()
        .backoff(Backoff::fixed(Duration::from_secs(1)))
        .breaker(BreakerConfig::consecutive(9));
    let policy = policy.build().unwrap();
    let breaker = policy.breaker().unwrap();
    breaker.force_open("maintenance");
    let by_hand = ": calls to it were stopped by hand";
    let expected = format!("{unavailable}{by_hand}");
    assert_eq!(detail(&fail(&policy).await).await, expected);
    // Opened while a call is in backoff.
    breaker.reset();
    let (retried, ()) = tokio::join!(fail(&policy), async {
        tokio::task::yield_now().await;
        breaker.force_open("maintenance");
    });
    let expected = format!("{unavailable} again after 1 attempt{by_hand}");
    assert_eq!(detail(&retried).await, expected);
}
