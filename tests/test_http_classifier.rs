//! HTTP answers and requests through the stack, with the classifier for them.

#![cfg(all(feature = "http", feature = "test-util"))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on ends with a panic"
)]

mod support;

use std::io;

use http::{Method, Request, Response};
use steadfast::http::{ExtensionsLayer, HttpClassifier, IdempotencyKeyLayer, Sealed, judge_error};
use steadfast::test_util::{ScriptedCall, ScriptedService, Step};
use steadfast::{
    Again, Backoff, CallReport, Classify, Error, Health, Policy, Replay, ServiceBuilderExt,
    Stopped, Verdict, Work,
};
use support::{Clock, named, plain, secs};
use tower::{ServiceBuilder, ServiceExt};

type Server = ScriptedService<Request<String>, Response<()>, io::Error>;
type Answer = Step<Request<String>, Response<()>, io::Error>;

/// Answers by script, then with 200.
fn script(steps: impl IntoIterator<Item = Answer>) -> Server {
    let script = steps.into_iter().fold(Server::new(), Server::then);
    script.then_always(Step::ok(Response::new(())))
}

/// Answers with each status in turn, then with 200.
fn statuses(statuses: &[u16]) -> Server {
    script(statuses.iter().map(|status| Step::ok(answer(*status, &[]))))
}

/// Fails as the system does, in a way of which there is no clone.
fn fails(kind: io::ErrorKind) -> Answer {
    Step::respond(move |_| Err(kind.into()))
}

fn header(server: &Server, send: usize, name: &str) -> Option<String> {
    let call = &server.recorded()[send];
    let value = call.request().headers().get(name)?;
    Some(value.to_str().unwrap().to_owned())
}

fn answer(status: u16, headers: &[(&'static str, &str)]) -> Response<()> {
    let mut answer = Response::builder().status(status);
    for (name, value) in headers {
        answer = answer.header(*name, *value);
    }
    answer.body(()).unwrap()
}

fn request(method: &Method) -> Request<String> {
    let request = Request::builder().method(method).uri("/things");
    request.body(String::from("body")).unwrap()
}

fn policy(classify: HttpClassifier) -> Policy<HttpClassifier> {
    named("things")
        .max_attempts(3)
        .backoff(Backoff::fixed(secs(1.0)))
        .largest_hint(secs(120.0))
        .classify(classify)
        .build()
        .unwrap()
}

async fn send(server: &Server, request: Request<String>) -> Result<Response<()>, Error> {
    send_with(server, HttpClassifier::new(), request).await
}

async fn send_with(
    server: &Server,
    classify: HttpClassifier,
    request: Request<String>,
) -> Result<Response<()>, Error> {
    let stack = ServiceBuilder::new()
        .resilience(policy(classify))
        .service(server.clone());
    stack.oneshot(request).await
}

fn judged(answer: &Response<()>) -> Verdict {
    judged_by(&HttpClassifier::new(), answer)
}

fn judged_by(classify: &HttpClassifier, answer: &Response<()>) -> Verdict {
    let memo = classify.memo(&request(&Method::GET));
    Classify::<Request<String>, Response<()>>::classify(classify, &memo, Ok(answer))
}

#[tokio::test(start_paused = true)]
async fn a_get_is_tried_again_and_the_last_answer_is_handed_on() {
    let server = statuses(&[503, 502]);
    assert_eq!(
        send(&server, request(&Method::GET)).await.unwrap().status(),
        200
    );
    assert_eq!(server.calls(), 3);

    let server = script([Step::ok(answer(500, &[("x-id", "7")])).times(3)]);
    let last = send(&server, request(&Method::GET)).await.unwrap();
    assert_eq!((last.status().as_u16(), server.calls()), (500, 3));
    assert_eq!(last.headers()["x-id"], "7");
    let sealed = last.extensions().get::<Sealed>().unwrap();
    assert_eq!(sealed.stopped(), Stopped::AttemptsExhausted);
}

#[tokio::test(start_paused = true)]
async fn a_post_is_sent_again_only_where_the_work_was_not_begun() {
    for (status, headers, sends) in [
        (500, &[][..], 1),
        (502, &[], 1),
        (503, &[], 1),
        (504, &[], 1),
        (503, &[("retry-after", "1")], 2),
        (503, &[("x-envoy-overloaded", "true")], 2),
        (529, &[], 2),
        (429, &[], 2),
        (408, &[], 2),
        (425, &[], 2),
        (404, &[], 1),
    ] {
        let server = script([Step::ok(answer(status, headers))]);
        send(&server, request(&Method::POST)).await.unwrap();
        assert_eq!(server.calls(), sends, "{status} {headers:?}");
    }
    for (kind, sends) in [
        (io::ErrorKind::ConnectionRefused, 2),
        (io::ErrorKind::ConnectionReset, 1),
        (io::ErrorKind::TimedOut, 1),
        (io::ErrorKind::UnexpectedEof, 1),
        (io::ErrorKind::Other, 1),
    ] {
        let server = script([fails(kind)]);
        let _ = send(&server, request(&Method::POST)).await;
        assert_eq!(server.calls(), sends, "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_makes_a_post_repeatable_and_is_the_same_on_every_attempt() {
    let server = statuses(&[500, 500]);
    let stack = ServiceBuilder::new()
        .layer(IdempotencyKeyLayer::new())
        .resilience(policy(HttpClassifier::new()))
        .service(server.clone());
    stack.clone().oneshot(request(&Method::POST)).await.unwrap();
    assert_eq!(server.calls(), 3);
    let keys = [0, 1, 2].map(|send| header(&server, send, "idempotency-key").unwrap());
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");

    // Another call, another key; one that was brought along stays; a GET needs
    // none.
    stack.clone().oneshot(request(&Method::POST)).await.unwrap();
    assert_ne!(header(&server, 3, "idempotency-key").unwrap(), keys[0]);
    let mut own = request(&Method::POST);
    own.headers_mut()
        .insert("idempotency-key", "mine".parse().unwrap());
    stack.clone().oneshot(own).await.unwrap();
    assert_eq!(header(&server, 4, "idempotency-key").unwrap(), "mine");
    stack.oneshot(request(&Method::GET)).await.unwrap();
    assert_eq!(header(&server, 5, "idempotency-key"), None);

    let quoted = ServiceBuilder::new()
        .layer(IdempotencyKeyLayer::new().quoted())
        .service(server.clone());
    quoted.oneshot(request(&Method::PATCH)).await.unwrap();
    let key = header(&server, 6, "idempotency-key").unwrap();
    assert!(key.starts_with('"') && key.ends_with('"') && key.len() == 38);
}

#[tokio::test(start_paused = true)]
async fn a_proxy_repeats_no_post_whatever_is_known_of_it() {
    for failure in [
        Step::ok(answer(429, &[])),
        Step::ok(answer(503, &[("retry-after", "1")])),
        fails(io::ErrorKind::ConnectionRefused),
    ] {
        let server = script([failure]);
        let mut post = request(&Method::POST);
        post.headers_mut()
            .insert("idempotency-key", "7".parse().unwrap());
        let _ = send_with(&server, HttpClassifier::new().for_proxies(), post).await;
        assert_eq!(server.calls(), 1);
    }
    let server = statuses(&[500]);
    let classify = HttpClassifier::new().for_proxies();
    send_with(&server, classify, request(&Method::PUT))
        .await
        .unwrap();
    assert_eq!(server.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn whoever_knows_better_says_what_may_be_repeated() {
    let server = statuses(&[500]);
    let classify = HttpClassifier::new().repeats_all();
    send_with(&server, classify, request(&Method::POST))
        .await
        .unwrap();
    assert_eq!(server.calls(), 2);

    let searches = HttpClassifier::new()
        .idempotent_if(|request: &Request<String>| request.uri().path().ends_with("/search"));
    for (path, sends) in [("/search", 2), ("/orders", 1)] {
        let server = statuses(&[500]);
        let policy = named("things")
            .max_attempts(3)
            .classify(searches.clone())
            .build()
            .unwrap();
        let stack = ServiceBuilder::new()
            .resilience(policy)
            .service(server.clone());
        let post = Request::post(path).body(String::new()).unwrap();
        stack.oneshot(post).await.unwrap();
        assert_eq!(server.calls(), sends, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_attempt_is_the_same_request() {
    let server = statuses(&[500, 500]);
    let mut put = request(&Method::PUT);
    *put.version_mut() = http::Version::HTTP_2;
    put.headers_mut().insert("x-one", "1".parse().unwrap());
    put.headers_mut().append("x-one", "2".parse().unwrap());
    put.extensions_mut().insert(7_u64);
    send(&server, put).await.unwrap();
    let seen = server.recorded();
    assert_eq!(seen.len(), 3);
    for request in seen.iter().map(ScriptedCall::request) {
        assert_eq!(request.method(), Method::PUT);
        assert_eq!(request.uri(), "/things");
        assert_eq!(request.version(), http::Version::HTTP_2);
        assert_eq!(request.headers().get_all("x-one").iter().count(), 2);
        assert_eq!(request.extensions().get::<u64>(), Some(&7));
        assert_eq!(request.body(), "body");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hint_is_waited_for_whatever_the_status_that_gives_it() {
    for status in [429, 500, 502, 503, 504, 529] {
        let clock = Clock::start();
        let server = script([Step::ok(answer(status, &[("retry-after", "7")]))]);
        send(&server, request(&Method::GET)).await.unwrap();
        let waited = clock.now();
        // The hint, and up to one backoff on top.
        assert!((7.0..=8.002).contains(&waited), "{status}: {waited}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_do_not_is_not_asked_again() {
    for headers in [
        ("x-should-retry", "false"),
        ("grpc-retry-pushback-ms", "-1"),
    ] {
        let server = script([Step::ok(answer(503, &[headers]))]);
        let last = send(&server, request(&Method::GET)).await.unwrap();
        assert_eq!((last.status().as_u16(), server.calls()), (503, 1));
    }
    let verdict = judged(&answer(503, &[("x-should-retry", "false")]));
    assert_eq!(verdict.health(), Health::Failing);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_do_is_asked_again_if_that_does_no_harm() {
    for (method, sends) in [(Method::GET, 2), (Method::POST, 1)] {
        let server = script([Step::ok(answer(409, &[("x-should-retry", "true")]))]);
        send(&server, request(&method)).await.unwrap();
        assert_eq!(server.calls(), sends, "{method}");
    }
    let verdict = judged(&answer(409, &[("x-should-retry", "true")]));
    assert_eq!(verdict.health(), Health::Neutral);
    // A success stays one.
    assert_eq!(
        judged(&answer(200, &[("x-should-retry", "true")])),
        Verdict::success()
    );
}

#[test]
fn rules_go_before_the_tables_and_the_last_one_first() {
    let classify = HttpClassifier::new()
        .status(404, |_| Verdict::transient().because(404))
        .status(404, |hints| {
            Verdict::throttled(hints.wait()).because("not yet")
        })
        .rule(|head| {
            let degraded = head.headers().contains_key("x-degraded");
            degraded.then(|| Verdict::overloaded(None).because("degraded"))
        });
    let verdict = judged_by(&classify, &answer(404, &[("retry-after", "3")]));
    assert_eq!(verdict.hint(), Some(secs(3.0)));
    assert_eq!(verdict.health(), Health::Neutral);
    let verdict = judged_by(&classify, &answer(200, &[("x-degraded", "1")]));
    assert_eq!(verdict.health(), Health::Failing);
    assert_eq!(judged_by(&classify, &answer(200, &[])), Verdict::success());
    let verdict = judged_by(&classify, &answer(500, &[]));
    assert_eq!(
        (verdict.again(), verdict.work()),
        (Again::AfterDelay, Work::Unknown)
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_an_inner_stack_gave_up_on_is_final_and_no_evidence() {
    let server = statuses(&[503; 9]);
    let inner = ServiceBuilder::new()
        .resilience(policy(HttpClassifier::new()))
        .service(server.clone());
    // A buffer runs it in a task of its own, where no scope reaches.
    let outer = policy(HttpClassifier::new());
    let stack = ServiceBuilder::new()
        .resilience(outer.clone())
        .buffer(1)
        .service(inner);
    let last = stack.oneshot(request(&Method::GET)).await.unwrap();
    assert_eq!((last.status().as_u16(), server.calls()), (503, 3));
}

#[tokio::test(start_paused = true)]
async fn wishes_come_with_the_request_and_the_report_with_the_answer() {
    let server = statuses(&[503; 9]);
    let stack = ServiceBuilder::new()
        .layer(ExtensionsLayer::new())
        .resilience(policy(HttpClassifier::new()))
        .service(server.clone());
    let last = stack.clone().oneshot(request(&Method::GET)).await.unwrap();
    let report = last.extensions().get::<CallReport>().unwrap();
    assert_eq!((report.attempts(), server.calls()), (3, 3));
    assert_eq!(report.stopped(), Some(Stopped::AttemptsExhausted));

    let mut once = request(&Method::GET);
    once.extensions_mut()
        .insert(steadfast::Scope::current().no_retries());
    let last = stack.clone().oneshot(once).await.unwrap();
    let report = last.extensions().get::<CallReport>().unwrap();
    assert_eq!((report.attempts(), server.calls()), (1, 4));
    assert_eq!(report.stopped(), Some(Stopped::RetriesDisabled));

    let mut short = request(&Method::GET);
    let deadline = steadfast::Deadline::after(secs(0.5));
    short
        .extensions_mut()
        .insert(steadfast::Scope::current().with_deadline(deadline));
    let last = stack.oneshot(short).await.unwrap();
    let report = last.extensions().get::<CallReport>().unwrap();
    assert_eq!(report.stopped(), Some(Stopped::Deadline));
}

#[tokio::test(start_paused = true)]
async fn a_poisoned_request_costs_no_more_than_its_attempts() {
    // One request that fails everywhere among many that do not.
    let server = statuses(&[500; 3]);
    let policy = named("things")
        .max_attempts(3)
        .classify(HttpClassifier::new())
        .breaker(plain(
            steadfast::BreakerConfig::failure_rate(0.5).min_calls(20),
        ))
        .build()
        .unwrap();
    let stack = ServiceBuilder::new()
        .resilience(policy.clone())
        .service(server.clone());
    for _ in 0..30 {
        stack.clone().oneshot(request(&Method::GET)).await.unwrap();
    }
    assert_eq!(server.calls(), 32);
    let seen = policy.breaker().unwrap().snapshot();
    assert_eq!(seen.state(), steadfast::BreakerState::Closed);
}

#[test]
fn errors_of_other_crates_are_found_behind_any_number_of_wrappers() {
    let error = io::Error::other(io::Error::other(tower::timeout::error::Elapsed::new()));
    assert_eq!(judge_error(&error).reason(), "timed out below".into());
}
