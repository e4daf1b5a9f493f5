//! Deadlines on the wire, and the retry stop: what each attempt tells the next
//! hop, what a handler is given of its caller's time, and what its caller hears
//! of a stack that has given up.

#![cfg(feature = "http")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod support;

use std::convert::Infallible;
use std::future::{Future, ready};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use steadfast::fallback::{self, FallbackLayer};
use steadfast::http::{
    DeadlineHeader, HttpClassifier, InboundDeadlineLayer, OutboundDeadlineLayer, Sealed,
};
use steadfast::{
    Backoff, BreakerConfig, BreakerState, CallReport, Deadline, Error, ErrorKind, Policy, Scope,
    ServiceBuilderExt, Stopped, Verdict, classify::classify_fn,
};
use support::*;
use tokio_test::{assert_pending, assert_ready, task};
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

type Answer = Response<()>;

const ENVOY: &str = "x-envoy-upstream-rq-timeout-ms";

fn answer(status: u16) -> Answer {
    let mut answer = Response::new(());
    *answer.status_mut() = StatusCode::from_u16(status).unwrap();
    answer
}

fn with(name: &'static str, value: &str) -> Request<()> {
    let mut request = Request::new(());
    let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
    request.headers_mut().insert(name, value);
    request
}

fn text(headers: &http::HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?;
    Some(value.to_str().unwrap().to_owned())
}

/// What a header said on each request.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Option<String>>>>);

impl Log {
    fn note(&self, request: &Request<()>, name: &str) {
        let value = text(request.headers(), name);
        self.0.lock().unwrap().push(value);
    }

    #[track_caller]
    fn assert(&self, expected: &[&str]) {
        let seen = self.0.lock().unwrap();
        let seen: Vec<_> = seen
            .iter()
            .map(|value| value.as_deref().unwrap_or("-"))
            .collect();
        assert_eq!(seen, expected);
    }
}

/// A server that notes a header and answers 500.
fn failing(
    log: &Log,
    name: &'static str,
) -> impl Service<Request<()>, Response = Answer, Error = Infallible, Future: Send>
+ Clone
+ Send
+ Sync
+ 'static {
    let log = log.clone();
    service_fn(move |request: Request<()>| {
        log.note(&request, name);
        ready(Ok(answer(500)))
    })
}

/// Three attempts, one second apart.
fn three_attempts() -> steadfast::PolicyBuilder<HttpClassifier> {
    bare()
        .classify(HttpClassifier::new())
        .max_attempts(3)
        .backoff(Backoff::fixed(secs(1.0)))
}

// ---- towards the next hop ----------------------------------------------------

#[tokio::test(start_paused = true)]
async fn each_attempt_tells_what_is_left_of_the_total() {
    for (form, name, told) in [
        (DeadlineHeader::envoy(), ENVOY, ["9990", "8990", "7990"]),
        (
            DeadlineHeader::grpc(),
            "grpc-timeout",
            ["9990000u", "8990000u", "7990000u"],
        ),
        (
            DeadlineHeader::connect(),
            "connect-timeout-ms",
            ["9990", "8990", "7990"],
        ),
    ] {
        let log = Log::default();
        // The attempt timeout is ours alone: nobody is told of it.
        let policy = three_attempts()
            .deadline(secs(10.0))
            .attempt_timeout(secs(2.0));
        let layer = OutboundDeadlineLayer::new(form).reserving(secs(0.01));
        let client = ServiceBuilder::new()
            .resilience(policy.build().unwrap())
            .layer(layer)
            .service(failing(&log, name));
        assert_eq!(
            client.oneshot(Request::new(())).await.unwrap().status(),
            500
        );
        log.assert(&told);
    }
}

#[tokio::test(start_paused = true)]
async fn each_attempt_tells_its_number() {
    let log = Log::default();
    let number = HeaderName::from_static("x-envoy-attempt-count");
    let layer = OutboundDeadlineLayer::new(DeadlineHeader::envoy()).numbering(number);
    let server = failing(&log, "x-envoy-attempt-count");
    let client = ServiceBuilder::new()
        .resilience(three_attempts().build().unwrap())
        .layer(layer.clone())
        .service(server.clone());
    let request = with("x-envoy-attempt-count", "7");
    client.oneshot(request.clone()).await.unwrap();
    log.assert(&["1", "2", "3"]);
    // Outside of a stack there are no attempts to count.
    let client = ServiceBuilder::new().layer(layer).service(server);
    client.oneshot(request).await.unwrap();
    log.assert(&["1", "2", "3", "7"]);
}

#[tokio::test(start_paused = true)]
async fn a_header_of_the_users_own_holds_where_it_grants_less() {
    for (own, told) in [
        ("300", ["300", "300", "300"]),
        ("3500", ["3500", "3000", "2000"]),
        ("60000", ["4000", "3000", "2000"]),
        ("a minute", ["4000", "3000", "2000"]),
    ] {
        let log = Log::default();
        let client = ServiceBuilder::new()
            .resilience(three_attempts().deadline(secs(4.0)).build().unwrap())
            .layer(OutboundDeadlineLayer::new(DeadlineHeader::envoy()))
            .service(failing(&log, ENVOY));
        client.oneshot(with(ENVOY, own)).await.unwrap();
        log.assert(&told);
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_deadline_nothing_is_written() {
    let log = Log::default();
    let client = ServiceBuilder::new()
        .resilience(bare().classify(HttpClassifier::new()).build().unwrap())
        .layer(OutboundDeadlineLayer::new(DeadlineHeader::envoy()))
        .service(failing(&log, ENVOY));
    for request in [Request::new(()), with(ENVOY, "0"), with(ENVOY, "soon")] {
        client.clone().oneshot(request).await.unwrap();
    }
    log.assert(&["-", "0", "soon"]);
}

#[tokio::test(start_paused = true)]
async fn with_nothing_left_to_grant_nothing_is_sent() {
    let t = Clock::start();
    let log = Log::default();
    let client = ServiceBuilder::new()
        .resilience(three_attempts().deadline(secs(1.0)).build().unwrap())
        .layer(OutboundDeadlineLayer::new(DeadlineHeader::envoy()).reserving(secs(1.0)))
        .service(failing(&log, ENVOY));
    let error = client.clone().oneshot(Request::new(())).await.unwrap_err();
    log.assert(&[]);
    t.assert_now(0.0);
    assert_eq!(error.attempts(), 1);
    let below = std::error::Error::source(&error).unwrap();
    let below = below.downcast_ref::<Error>().unwrap();
    assert_eq!(below.kind(), ErrorKind::DeadlineExceeded);

    // A header of the user's own that grants nothing is no way around it.
    let error = client.oneshot(with(ENVOY, "0")).await.unwrap_err();
    assert_eq!(error.attempts(), 1);
    log.assert(&[]);
}

// ---- from the caller ---------------------------------------------------------

/// Hangs, and notes when it was begun and when it was dropped.
#[derive(Clone)]
struct Hanging {
    begun: Arc<Mutex<Vec<f64>>>,
    dropped: Arc<Mutex<Vec<f64>>>,
}

struct Noted(Clock, Arc<Mutex<Vec<f64>>>);

impl Drop for Noted {
    fn drop(&mut self) {
        // Also while a failed test unwinds.
        let mut times = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        times.push(self.0.now());
    }
}

impl Hanging {
    fn new() -> Self {
        Self {
            begun: Arc::default(),
            dropped: Arc::default(),
        }
    }

    /// Answers one request through `layer`.
    async fn answer(&self, layer: &InboundDeadlineLayer, request: Request<()>) -> Answer {
        let (t, hanging) = (Clock::start(), self.clone());
        let handler = service_fn(move |_: Request<()>| {
            hanging.begun.lock().unwrap().push(t.now());
            let noted = Noted(t, Arc::clone(&hanging.dropped));
            async move {
                tokio::time::sleep(secs(1e6)).await;
                drop(noted);
                Ok::<_, Infallible>(answer(200))
            }
        });
        let service = ServiceBuilder::new().layer(layer).service(handler);
        service.oneshot(request).await.unwrap()
    }

    fn begun(&self) -> Vec<f64> {
        self.begun.lock().unwrap().clone()
    }

    fn dropped(&self) -> Vec<f64> {
        self.dropped.lock().unwrap().clone()
    }
}

fn trusting_grpc() -> InboundDeadlineLayer {
    InboundDeadlineLayer::capped(secs(3.0)).trusting(DeadlineHeader::grpc())
}

#[tokio::test(start_paused = true)]
async fn a08_the_less_of_header_and_cap_holds_and_the_handler_is_dropped_then() {
    for (value, ends) in [
        ("10S", 3.0),
        ("500m", 0.5),
        ("1H", 3.0),
        ("1M", 3.0),
        ("00000001S", 1.0),
        ("99999999H", 3.0),
        ("99999999n", 0.1),
        // Malformed: as if there were none.
        ("100000000n", 3.0),
        ("000000001S", 3.0),
        ("+5S", 3.0),
        ("-5S", 3.0),
        ("5", 3.0),
        ("S", 3.0),
        ("", 3.0),
        ("5s", 3.0),
        ("5 S", 3.0),
        ("1.0S", 3.0),
        ("1Sx", 3.0),
        ("\u{661}S", 3.0),
    ] {
        let t = Clock::start();
        let hanging = Hanging::new();
        let answer = hanging
            .answer(&trusting_grpc(), with("grpc-timeout", value))
            .await;
        assert_eq!(answer.status(), 504, "{value:?}");
        assert_times(&[t.now()], &[ends]);
        assert_times(&hanging.begun(), &[0.0]);
        assert_times(&hanging.dropped(), &[ends]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_holds_is_let_go_before_its_answer_is_taken() {
    let t = Clock::start();
    let dropped = Arc::new(Mutex::new(Vec::new()));
    for hangs in [false, true] {
        let dropped_by = Arc::clone(&dropped);
        let mut service =
            ServiceBuilder::new()
                .layer(trusting_grpc())
                .service_fn(move |_: Request<()>| {
                    let noted = Noted(t, Arc::clone(&dropped_by));
                    async move {
                        let _noted = noted;
                        if hangs {
                            tokio::time::sleep(secs(1e6)).await;
                        }
                        Ok::<_, Infallible>(answer(200))
                    }
                });
        let mut call = task::spawn(service.call(with("grpc-timeout", "500m")));
        if hangs {
            assert_pending!(call.poll());
            t.reach(0.6).await;
        }
        assert_ready!(call.poll()).unwrap();
        assert_eq!(dropped.lock().unwrap().len(), 1 + usize::from(hangs));
    }
}

#[tokio::test(start_paused = true)]
async fn a08_a_request_that_comes_too_late_is_answered_without_the_handler() {
    let hanging = Hanging::new();
    for value in ["0S", "0n", "00000000H"] {
        let t = Clock::start();
        let answer = hanging
            .answer(&trusting_grpc(), with("grpc-timeout", value))
            .await;
        assert_eq!(answer.status(), 504);
        t.assert_now(0.0);
    }
    let uncapped = InboundDeadlineLayer::uncapped().trusting(DeadlineHeader::envoy());
    assert_eq!(
        hanging.answer(&uncapped, with(ENVOY, "0")).await.status(),
        504
    );
    let past = Deadline::after(Duration::ZERO);
    let late = past.scope(hanging.answer(&uncapped, Request::new(())));
    assert_eq!(late.await.status(), 504);
    assert!(hanging.begun().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_is_not_trusted_changes_nothing() {
    for layer in [
        InboundDeadlineLayer::capped(secs(3.0)),
        InboundDeadlineLayer::capped(secs(3.0)).trusting(DeadlineHeader::envoy()),
    ] {
        let t = Clock::start();
        let request = with("grpc-timeout", "500m");
        assert_eq!(Hanging::new().answer(&layer, request).await.status(), 504);
        t.assert_now(3.0);
    }
}

#[tokio::test(start_paused = true)]
async fn without_any_limit_a_handler_takes_its_time() {
    let t = Clock::start();
    let layer = InboundDeadlineLayer::uncapped().trusting(DeadlineHeader::grpc());
    let answer = Hanging::new().answer(&layer, Request::new(())).await;
    assert_eq!(answer.status(), 200);
    t.assert_now(1e6);
    // More time than the clock has is no limit either.
    let answer = Hanging::new()
        .answer(&layer, with("grpc-timeout", "99999999H"))
        .await;
    assert_eq!(answer.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn of_several_headers_and_scopes_the_least_holds() {
    let layer = trusting_grpc()
        .trusting(DeadlineHeader::envoy())
        .trusting(DeadlineHeader::millis(HeaderName::from_static("x-left")));
    let mut request = with("grpc-timeout", "2S");
    request
        .headers_mut()
        .append("grpc-timeout", HeaderValue::from_static("1S"));
    request
        .headers_mut()
        .insert(ENVOY, HeaderValue::from_static("1500"));
    request
        .headers_mut()
        .insert("x-left", HeaderValue::from_static("x"));
    let t = Clock::start();
    Hanging::new().answer(&layer, request.clone()).await;
    t.assert_now(1.0);

    let t = Clock::start();
    let (hanging, around) = (Hanging::new(), Deadline::after(secs(0.25)));
    let call = hanging.answer(&layer, request);
    assert_eq!(around.scope(call).await.status(), 504);
    t.assert_now(0.25);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_is_in_scope_only_where_the_future_runs_holds_too() {
    let t = Clock::start();
    let mut service =
        ServiceBuilder::new()
            .layer(trusting_grpc())
            .service_fn(|_: Request<()>| async {
                tokio::time::sleep(secs(60.0)).await;
                Ok::<_, Infallible>(answer(200))
            });
    let call = service.call(with("grpc-timeout", "2S"));
    let answer = Deadline::after(secs(0.5)).scope(call).await.unwrap();
    assert_eq!(answer.status(), 504);
    t.assert_now(0.5);
}

#[tokio::test(start_paused = true)]
async fn a_grpc_caller_is_told_in_the_head_of_an_answer_without_a_message() {
    for kind in [
        "application/grpc",
        "application/grpc+proto",
        "Application/gRPC",
    ] {
        let mut request = with("content-type", kind);
        request
            .headers_mut()
            .insert("grpc-timeout", HeaderValue::from_static("500m"));
        let answer = Hanging::new().answer(&trusting_grpc(), request).await;
        assert_eq!(answer.status(), 200);
        let said = ["content-type", "grpc-status", "grpc-message"];
        let said = said.map(|name| text(answer.headers(), name).unwrap());
        assert_eq!(said, [kind, "4", "deadline exceeded"]);
    }
    for kind in ["application/json", "application/grp", ""] {
        let answer = Hanging::new()
            .answer(&trusting_grpc(), with("content-type", kind))
            .await;
        assert_eq!(answer.status(), 504, "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_handler_and_the_tasks_it_wraps_see_the_deadline() {
    let handler = service_fn(|_: Request<()>| async {
        let left = || Deadline::current().unwrap().remaining();
        let here = left();
        let there = tokio::spawn(Scope::current().wrap(async move { left() }));
        assert_eq!((here, there.await.unwrap()), (secs(0.5), secs(0.5)));
        Ok::<_, Infallible>(answer(200))
    });
    let service = ServiceBuilder::new()
        .layer(trusting_grpc())
        .service(handler);
    let answer = service.oneshot(with("grpc-timeout", "500m")).await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(Deadline::current().is_none());
}

#[test]
fn a_handler_that_is_ready_at_once_costs_no_timer() {
    // Without a clock of its own, the runtime cannot make one.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let handler = service_fn(|_: Request<()>| ready(Ok::<_, Infallible>(answer(200))));
    let service = ServiceBuilder::new()
        .layer(trusting_grpc())
        .service(handler);
    let call = service.oneshot(with("grpc-timeout", "500m"));
    assert_eq!(runtime.block_on(call).unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_gateway_passes_on_what_its_caller_has_left() {
    let log = Log::default();
    let backend = ServiceBuilder::new()
        .resilience(three_attempts().deadline(secs(30.0)).build().unwrap())
        .layer(OutboundDeadlineLayer::new(DeadlineHeader::grpc()))
        .service(failing(&log, "grpc-timeout"));
    let gateway =
        ServiceBuilder::new()
            .layer(trusting_grpc())
            .service_fn(move |request: Request<()>| {
                let backend = backend.clone();
                async move {
                    tokio::time::sleep(secs(0.1)).await;
                    backend.oneshot(request).await
                }
            });
    // The gateway's own caller had 2.5 s; its header goes no further than it
    // holds.
    let t = Clock::start();
    let answer = gateway
        .clone()
        .oneshot(with("grpc-timeout", "2500m"))
        .await
        .unwrap();
    assert_eq!(answer.status(), 500);
    log.assert(&["2400000u", "1400000u", "400000u"]);
    t.assert_now(2.1);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_looks_when_it_is_called_sees_its_deadline() {
    for (said, passed_on) in [
        ("10S", "3000000u"),
        ("500m", "500000u"),
        ("nonsense", "3000000u"),
    ] {
        let log = Log::default();
        // A proxy without a stack: headers are written in `call`.
        let proxy = ServiceBuilder::new()
            .layer(trusting_grpc())
            .layer(OutboundDeadlineLayer::new(DeadlineHeader::grpc()))
            .service(failing(&log, "grpc-timeout"));
        proxy.oneshot(with("grpc-timeout", said)).await.unwrap();
        log.assert(&[passed_on]);
    }
}

// ---- a server that keeps to what it was told ---------------------------------

/// A client of a server that hangs and answers in time that it is late, the
/// answer being a round trip of 2 ms on its way.
fn punctual(
    policy: &Policy<HttpClassifier>,
) -> impl Service<Request<()>, Response = Answer, Error = Error, Future: Send> + Clone {
    ServiceBuilder::new()
        .resilience(policy.clone())
        .service(punctual_hop())
}

fn punctual_hop()
-> impl Service<Request<()>, Response = Answer, Error = tower::BoxError, Future: Send> + Clone + Send
{
    let server = remote(
        ServiceBuilder::new()
            .layer(InboundDeadlineLayer::uncapped().trusting(DeadlineHeader::envoy()))
            .service_fn(|_: Request<()>| std::future::pending::<Result<Answer, Infallible>>()),
    );
    ServiceBuilder::new()
        .layer(OutboundDeadlineLayer::new(DeadlineHeader::envoy()).reserving(secs(0.01)))
        .service_fn(move |request: Request<()>| {
            let server = server.clone();
            async move {
                let answer = server.oneshot(request).await;
                tokio::time::sleep(secs(0.002)).await;
                answer
            }
        })
}

#[tokio::test(start_paused = true)]
async fn callers_without_time_do_not_open_the_breaker_for_those_who_have_some() {
    let policy = bare()
        .classify(HttpClassifier::new())
        .attempt_timeout(secs(1.0))
        .deadline(secs(30.0))
        .max_attempts(3)
        .breaker(plain(BreakerConfig::consecutive(2)))
        .build()
        .unwrap();
    let client = punctual(&policy);
    let breaker = policy.breaker().unwrap();
    for _ in 0..5 {
        let impatient = Scope::current().with_deadline(Deadline::after(secs(0.1)));
        let call = impatient.wrap(client.clone().oneshot(Request::new(())));
        let (answer, report) = CallReport::capture(call).await;
        assert_eq!(answer.unwrap().status(), 504);
        assert_eq!(report.unwrap().attempts(), 1);
        assert_eq!(breaker.state(), BreakerState::Closed);
    }
    // With half of the attempt timeout it had its chance.
    for state in [BreakerState::Closed, BreakerState::Open] {
        let enough = Scope::current().with_deadline(Deadline::after(secs(0.6)));
        let call = enough.wrap(client.clone().oneshot(Request::new(())));
        assert_eq!(call.await.unwrap().status(), 504);
        assert_eq!(breaker.state(), state);
    }
}

/// What stands between attempt and header may have a scope of its own.
#[tokio::test(start_paused = true)]
async fn what_the_next_hop_was_granted_is_known_through_scopes_and_captures() {
    let policy = bare()
        .classify(HttpClassifier::new())
        .attempt_timeout(secs(1.0))
        .deadline(secs(30.0))
        .max_attempts(3)
        .breaker(plain(BreakerConfig::consecutive(1)))
        .build()
        .unwrap();
    let scoped = ServiceBuilder::new()
        .resilience(policy.clone())
        .service_fn(|request| Scope::current().wrap(punctual_hop().oneshot(request)));
    let captured = ServiceBuilder::new()
        .resilience(policy.clone())
        .service_fn(|request| async {
            let hop = CallReport::capture(punctual_hop().oneshot(request));
            hop.await.0
        });
    let clients = [
        tower::util::BoxCloneService::new(scoped),
        tower::util::BoxCloneService::new(captured),
    ];
    for client in clients {
        let impatient = Scope::current().with_deadline(Deadline::after(secs(0.1)));
        let answer = impatient.wrap(client.oneshot(Request::new(()))).await;
        assert_eq!(answer.unwrap().status(), 504);
        let state = policy.breaker().unwrap().state();
        assert_eq!(state, BreakerState::Closed, "it had no time to give");
    }
}

#[tokio::test(start_paused = true)]
async fn what_one_attempt_granted_says_nothing_of_the_next() {
    let policy = bare()
        .classify(HttpClassifier::new())
        .deadline(secs(10.0))
        .max_attempts(3)
        .backoff(Backoff::none())
        .build()
        .unwrap();
    let tries = Arc::new(Mutex::new(0));
    let count = Arc::clone(&tries);
    let client = ServiceBuilder::new()
        .resilience(policy)
        .service_fn(move |request: Request<()>| {
            let mut tries = count.lock().unwrap();
            *tries += 1;
            let is_first = *tries == 1;
            async move {
                if is_first {
                    let told = OutboundDeadlineLayer::new(DeadlineHeader::envoy());
                    let hop = ServiceBuilder::new()
                        .layer(told.reserving(secs(9.0)))
                        .service_fn(|_: Request<()>| ready(Ok::<_, Infallible>(answer(503))));
                    return hop.oneshot(request).await;
                }
                // Another server, which was told nothing.
                tokio::time::sleep(secs(2.0)).await;
                Ok(answer(503))
            }
        });
    let answered = client.oneshot(Request::new(())).await;
    assert_eq!(answered.unwrap().status(), 503);
    assert_eq!(*tries.lock().unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_server_is_punctual_from_the_very_moment_that_it_was_told() {
    let plain_request = || Request::new(());
    let (open, closed) = (BreakerState::Open, BreakerState::Closed);
    for (request, answered_after, state) in [
        (plain_request(), 0.089, open),
        (plain_request(), 0.09, closed),
        // A header of the user's own is no grant of the deadline's if it is less.
        (with(ENVOY, "90"), 0.09, closed),
        (with(ENVOY, "89"), 0.09, open),
    ] {
        let policy = bare()
            .classify(HttpClassifier::new())
            .attempt_timeout(secs(1.0))
            .breaker(plain(BreakerConfig::consecutive(1)))
            .build()
            .unwrap();
        let client = ServiceBuilder::new()
            .resilience(policy.clone())
            .layer(OutboundDeadlineLayer::new(DeadlineHeader::envoy()).reserving(secs(0.01)))
            .service_fn(move |_: Request<()>| {
                // The clock itself moves: timers are late by up to 2 ms.
                let mut answers = task::spawn(tokio::time::advance(secs(answered_after)));
                assert_pending!(answers.poll());
                ready(Ok::<_, Infallible>(answer(504)))
            });
        let impatient = Scope::current().with_deadline(Deadline::after(secs(0.1)));
        let call = impatient.wrap(client.oneshot(request));
        assert_eq!(call.await.unwrap().status(), 504);
        let breaker = policy.breaker().unwrap();
        assert_eq!(breaker.state(), state, "after {answered_after} s");
    }
}

#[tokio::test(start_paused = true)]
async fn no_attempt_begins_in_the_time_that_is_reserved() {
    let log = Log::default();
    // The backoff would end half a second into the reserve.
    let policy = bare().classify(HttpClassifier::new()).max_attempts(3);
    let policy = policy
        .backoff(Backoff::fixed(secs(1.5)))
        .deadline(secs(2.0));
    let client = ServiceBuilder::new()
        .resilience(policy.build().unwrap())
        .layer(OutboundDeadlineLayer::new(DeadlineHeader::envoy()).reserving(secs(1.0)))
        .service(failing(&log, ENVOY));
    let (answer, report) = CallReport::capture(client.oneshot(Request::new(()))).await;
    assert_eq!(answer.unwrap().status(), 500, "the answer that there was");
    assert_eq!(report.unwrap().stopped(), Some(Stopped::Deadline));
    log.assert(&["1000"]);
}

#[tokio::test(start_paused = true)]
async fn a_caller_without_time_falls_through_to_who_answers_from_memory() {
    let policy = bare().classify(HttpClassifier::new()).build().unwrap();
    let client = ServiceBuilder::new()
        .layer(
            FallbackLayer::new(fallback::with(|_: &Error| {
                ready(Ok::<_, Error>(answer(203)))
            }))
            .reserve(secs(0.5)),
        )
        .service(punctual(&policy));
    let impatient = Scope::current().with_deadline(Deadline::after(secs(0.6)));
    let answer = impatient.wrap(client.oneshot(Request::new(()))).await;
    assert_eq!(answer.unwrap().status(), 203);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_late_by_a_limit_of_its_own_is_failing() {
    let log = Log::default();
    let policy = bare()
        .classify(HttpClassifier::new())
        .attempt_timeout(secs(10.0))
        .deadline(secs(30.0))
        .max_attempts(2)
        .breaker(plain(BreakerConfig::consecutive(2)))
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .resilience(policy.clone())
        .layer(OutboundDeadlineLayer::new(DeadlineHeader::envoy()))
        .service_fn(|request: Request<()>| {
            log.note(&request, ENVOY);
            async {
                tokio::time::sleep(secs(0.5)).await;
                Ok::<_, Infallible>(answer(504))
            }
        });
    // Neither by its own nor by a header of the user's, which is for one attempt.
    let answer = client.oneshot(with(ENVOY, "500")).await.unwrap();
    assert_eq!(answer.status(), 504);
    log.assert(&["500", "500"]);
    assert_eq!(policy.breaker().unwrap().state(), BreakerState::Open);
}

// ---- the retry stop ----------------------------------------------------------

/// A service on the other side of a wire: another task, with nothing in scope,
/// and of the answer only what a wire carries.
fn remote<S>(
    service: S,
) -> impl Service<Request<()>, Response = Answer, Error = Infallible, Future: Send>
+ Clone
+ Send
+ Sync
+ 'static
where
    S: Service<Request<()>, Response = Answer, Error = Infallible, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static,
{
    service_fn(move |request: Request<()>| {
        let call = tokio::spawn(service.clone().oneshot(request));
        async move {
            let mut answer = call.await.unwrap().unwrap();
            answer.extensions_mut().clear();
            Ok(answer)
        }
    })
}

/// Four attempts, as close together as can be.
fn four_attempts() -> Policy<HttpClassifier> {
    let policy = bare().classify(HttpClassifier::new()).max_attempts(4);
    policy.build().unwrap()
}

/// A handler that passes on what a stack of four attempts over `next` says.
fn hop<S>(
    next: S,
) -> impl Service<Request<()>, Response = Answer, Error = Infallible, Future: Send>
+ Clone
+ Send
+ Sync
+ 'static
where
    S: Service<Request<()>, Response = Answer, Error = Infallible, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static,
{
    let stack = ServiceBuilder::new()
        .resilience(four_attempts())
        .service(next);
    ServiceBuilder::new()
        .layer(InboundDeadlineLayer::uncapped())
        .service_fn(move |request: Request<()>| {
            let stack = stack.clone();
            async move {
                let passed_on = stack.oneshot(request).await;
                Ok(passed_on.unwrap_or_else(|_| answer(502)))
            }
        })
}

#[tokio::test(start_paused = true)]
async fn through_three_processes_four_attempts_stay_four() {
    let log = Log::default();
    let bottom = failing(&log, "x");
    let top = remote(hop(remote(hop(remote(hop(remote(bottom)))))));
    let answer = top.oneshot(Request::new(())).await.unwrap();
    assert_eq!(answer.status(), 500);
    assert_eq!(answer.headers()["x-should-retry"], "false");
    log.assert(&["-"; 4]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_the_handlers_own_says_so_too() {
    // The handler makes a new answer, so that only the mark in the scope knows.
    let (log, before) = (Log::default(), Log::default());
    let stack = ServiceBuilder::new()
        .resilience(four_attempts())
        .service(failing(&log, "x"));
    let handler = ServiceBuilder::new()
        .layer(InboundDeadlineLayer::uncapped())
        .service_fn(move |request: Request<()>| {
            before.note(&request, "x");
            let stack = stack.clone();
            async move {
                stack.oneshot(request).await?;
                Ok::<_, Error>(answer(503))
            }
        });
    let answer = handler.oneshot(Request::new(())).await.unwrap();
    assert!(answer.extensions().get::<Sealed>().is_none());
    assert_eq!(answer.headers()["x-should-retry"], "false");
    log.assert(&["-"; 4]);
}

#[tokio::test(start_paused = true)]
async fn a_stack_around_a_handler_in_the_same_task_hears_of_it_as_well() {
    let log = Log::default();
    let inner = hop(failing(&log, "x"));
    // An outer stack that looks at nothing but the status.
    let by_status = |answer: Result<&Answer, &Source>| match answer {
        Ok(answer) if answer.status().is_success() => Verdict::success(),
        _ => Verdict::transient(),
    };
    let policy = bare().classify(classify_fn(by_status)).max_attempts(4);
    let outer = ServiceBuilder::new()
        .resilience(policy.build().unwrap())
        .service_fn(move |request: Request<()>| {
            let call = inner.clone().oneshot(request);
            async move { call.await.map(|passed| answer(passed.status().as_u16())) }
        });
    assert_eq!(outer.oneshot(Request::new(())).await.unwrap().status(), 500);
    log.assert(&["-"; 4]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_cut_after_its_stack_gave_up_says_so_too() {
    let log = Log::default();
    let stack = ServiceBuilder::new()
        .resilience(four_attempts())
        .service(failing(&log, "x"));
    let handler = |hang_first: bool| {
        let stack = stack.clone();
        ServiceBuilder::new()
            .layer(InboundDeadlineLayer::capped(secs(1.0)))
            .service_fn(move |request: Request<()>| {
                let stack = stack.clone();
                async move {
                    if !hang_first {
                        stack.oneshot(request).await?;
                    }
                    tokio::time::sleep(secs(60.0)).await;
                    Ok::<_, Error>(answer(200))
                }
            })
    };
    for (hang_first, word) in [(false, Some("false")), (true, None)] {
        let answer = handler(hang_first).oneshot(Request::new(())).await.unwrap();
        assert_eq!(answer.status(), 504);
        assert_eq!(text(answer.headers(), "x-should-retry").as_deref(), word);
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_stack_that_served_nothing_is_said_of_one_that_did_not() {
    let log = Log::default();
    let dead = ServiceBuilder::new()
        .resilience(four_attempts())
        .service(failing(&log, "x"));
    let alive = ServiceBuilder::new()
        .resilience(four_attempts())
        .service_fn(|_: Request<()>| ready(Ok::<_, Infallible>(answer(200))));
    let handler = ServiceBuilder::new()
        .layer(InboundDeadlineLayer::uncapped())
        .service_fn(move |request: Request<()>| {
            let (dead, alive) = (dead.clone(), alive.clone());
            async move {
                dead.oneshot(request.clone()).await?;
                alive.oneshot(request).await?;
                Ok::<_, Error>(answer(500))
            }
        });
    let answer = handler.oneshot(Request::new(())).await.unwrap();
    assert_eq!(text(answer.headers(), "x-should-retry"), None);
}

#[tokio::test(start_paused = true)]
async fn what_a_stack_before_the_handler_gave_up_is_not_the_handlers() {
    let log = Log::default();
    let dead = ServiceBuilder::new()
        .resilience(four_attempts())
        .service(failing(&log, "x"));
    let handler = ServiceBuilder::new()
        .layer(InboundDeadlineLayer::uncapped())
        .service_fn(|_: Request<()>| ready(Ok::<_, Error>(answer(500))));
    let task = Scope::current().wrap(async {
        dead.oneshot(Request::new(())).await?;
        handler.oneshot(Request::new(())).await
    });
    let answer = task.await.unwrap();
    assert_eq!(text(answer.headers(), "x-should-retry"), None);
}

// ---- around what others built --------------------------------------------------

#[tokio::test(start_paused = true)]
async fn the_layer_stands_around_a_router_of_axums() {
    let hang = || async {
        tokio::time::sleep(secs(60.0)).await;
        "late"
    };
    let router = axum::Router::new()
        .route("/", axum::routing::get(hang))
        .layer(trusting_grpc());
    let request = with("grpc-timeout", "500m").map(|()| axum::body::Body::empty());
    let t = Clock::start();
    assert_eq!(router.oneshot(request).await.unwrap().status(), 504);
    t.assert_now(0.5);
}

#[tokio::test]
async fn the_layer_stands_around_the_routes_of_tonics() {
    let service = ServiceBuilder::new()
        .layer(trusting_grpc())
        .service(tonic::service::Routes::default());
    for (left, status) in [("0S", "4"), ("1S", "12")] {
        let mut request = with("content-type", "application/grpc");
        let left = HeaderValue::from_static(left);
        request.headers_mut().insert("grpc-timeout", left);
        let call = service
            .clone()
            .oneshot(request.map(|()| tonic::body::Body::empty()));
        let answer = call.await.unwrap();
        assert_eq!(answer.headers()["grpc-status"], status);
    }
}

#[test]
fn futures_are_send_when_what_is_inside_is() {
    fn is_send<F: Future + Send>(_: &F) {}
    let handler = service_fn(|_: Request<()>| ready(Ok::<_, Infallible>(answer(200))));
    let mut service = ServiceBuilder::new()
        .layer(trusting_grpc())
        .layer(OutboundDeadlineLayer::new(DeadlineHeader::grpc()))
        .service(handler);
    is_send(&service.call(Request::new(())));
}
