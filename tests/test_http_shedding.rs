//! A server that turns away what it has no place for.

#![cfg(feature = "http")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

use std::convert::Infallible;
use std::future::{Future, Ready, poll_fn, ready};
use std::io;
use std::num::NonZeroU32;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use steadfast::http::{HttpClassifier, ShedLayer};
use steadfast::{Classify, Health, Verdict, Work};
use tokio::sync::{Semaphore, mpsc};
use tokio_test::{assert_pending, assert_ready, task};
use tower::buffer::Buffer;
use tower::{Layer, Service, ServiceExt, service_fn};

type Answer = Response<String>;

/// A handler that waits for a token before it answers, and counts its calls.
#[derive(Clone)]
struct Handler {
    tokens: Arc<Semaphore>,
    calls: Arc<AtomicU32>,
}

impl Handler {
    fn new() -> Self {
        Self {
            tokens: Arc::new(Semaphore::new(0)),
            calls: Arc::default(),
        }
    }

    fn calls(&self) -> u32 {
        self.calls.load(Ordering::Relaxed)
    }

    fn let_one_answer(&self) {
        self.tokens.add_permits(1);
    }
}

impl Service<Request<()>> for Handler {
    type Response = Answer;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let tokens = Arc::clone(&self.tokens);
        Box::pin(async move {
            tokens.acquire().await.unwrap().forget();
            Ok(Response::new(String::from("served")))
        })
    }
}

fn places(places: u32) -> ShedLayer {
    ShedLayer::new(NonZeroU32::new(places).unwrap())
}

fn plain() -> Request<()> {
    Request::new(())
}

fn typed(content_type: &str) -> Request<()> {
    let request = Request::post("/shop.Inventory/Get").header("content-type", content_type);
    request.body(()).unwrap()
}

fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer
        .headers()
        .get(name)
        .map(|value| value.to_str().unwrap())
}

/// What a service whose only place is taken answers, at once.
fn turned_away(layer: &ShedLayer, request: Request<()>) -> Answer {
    let handler = Handler::new();
    let service = layer.layer(handler.clone());
    let mut held = task::spawn(service.clone().oneshot(plain()));
    assert_pending!(held.poll());
    let mut away = task::spawn(service.oneshot(request));
    let answer = assert_ready!(away.poll()).unwrap();
    assert_eq!(handler.calls(), 1, "the handler never sees it");
    answer
}

#[tokio::test]
async fn what_has_no_place_gets_an_empty_503_at_once() {
    let handler = Handler::new();
    let service = places(2).layer(handler.clone());
    let mut calls: Vec<_> = (0..5)
        .map(|_| task::spawn(service.clone().oneshot(plain())))
        .collect();
    let polled: Vec<_> = calls.iter_mut().map(task::Spawn::poll).collect();
    assert!(polled[..2].iter().all(Poll::is_pending));
    for answer in polled.into_iter().skip(2) {
        let answer = assert_ready!(answer).unwrap();
        assert_eq!(answer.status(), 503);
        assert_eq!(header(&answer, "retry-after"), Some("1"));
        assert_eq!(answer.body(), "");
    }
    assert_eq!(handler.calls(), 2);

    handler.let_one_answer();
    handler.let_one_answer();
    for call in &mut calls[..2] {
        assert!(call.is_woken());
        let answer = assert_ready!(call.poll()).unwrap();
        assert_eq!(
            (answer.status().as_u16(), &**answer.body()),
            (200, "served")
        );
    }
}

#[tokio::test]
async fn a_place_is_held_until_the_head_and_not_by_the_body() {
    let handler = Handler::new();
    let mut service = places(1).layer(handler.clone());
    let mut first = task::spawn(service.call(plain()));
    assert_pending!(first.poll());
    handler.let_one_answer();
    let answer = assert_ready!(first.poll()).unwrap();
    // The body is not read yet, and the call's own future still there.
    let mut second = task::spawn(service.call(plain()));
    assert_pending!(second.poll());
    assert_eq!(handler.calls(), 2);
    drop((answer, first));
}

#[tokio::test]
async fn a_call_that_is_dropped_gives_its_place_back() {
    let handler = Handler::new();
    let service = places(1).layer(handler.clone());
    for calls in 1..4 {
        let mut call = task::spawn(service.clone().oneshot(plain()));
        assert_pending!(call.poll());
        assert_eq!(handler.calls(), calls);
    }
}

#[tokio::test]
async fn a_call_that_was_not_polled_holds_no_place() {
    let handler = Handler::new();
    let mut service = places(1).layer(handler.clone());
    let unpolled = service.call(plain());
    let mut call = task::spawn(service.call(plain()));
    assert_pending!(call.poll());
    let mut late = task::spawn(unpolled);
    assert_eq!(assert_ready!(late.poll()).unwrap().status(), 503);
}

#[tokio::test]
async fn a_call_that_was_turned_away_does_not_queue_for_the_next_place() {
    let handler = Handler::new();
    let mut service = places(1).layer(handler.clone());
    let mut first = task::spawn(service.clone().oneshot(plain()));
    assert_pending!(first.poll());

    // The service and the future of the one turned away live on.
    poll_fn(|cx| service.poll_ready(cx)).await.unwrap();
    let mut away = task::spawn(service.call(plain()));
    assert_eq!(assert_ready!(away.poll()).unwrap().status(), 503);
    drop(first);
    for calls in 2..5 {
        let mut other = task::spawn(service.clone().oneshot(plain()));
        assert_pending!(other.poll());
        assert_eq!(handler.calls(), calls);
    }
}

#[tokio::test]
async fn a_handler_that_panics_or_fails_gives_its_place_back() {
    let handler = service_fn(|request: Request<()>| async move {
        assert!(request.uri().path() != "/panic", "as asked");
        Err::<Answer, _>(io::Error::other("failed"))
    });
    let service = places(1).layer(handler);
    for _ in 0..3 {
        let request = Request::get("/panic").body(()).unwrap();
        let mut call = Box::pin(service.clone().oneshot(request));
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| {
            let mut cx = Context::from_waker(std::task::Waker::noop());
            call.as_mut().poll(&mut cx)
        }));
        assert!(polled.is_err());
        drop(call);
        let error = service.clone().oneshot(plain()).await.unwrap_err();
        assert_eq!(error.to_string(), "failed");
    }
}

#[tokio::test]
async fn a_readiness_that_failed_is_the_calls_error() {
    #[derive(Clone)]
    struct Unready;

    impl Service<Request<()>> for Unready {
        type Response = Answer;
        type Error = io::Error;
        type Future = Ready<Result<Answer, io::Error>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Err(io::Error::other("not ready")))
        }

        fn call(&mut self, _: Request<()>) -> Self::Future {
            panic!("called without readiness");
        }
    }

    let error = places(1).layer(Unready).oneshot(plain()).await.unwrap_err();
    assert_eq!(error.to_string(), "not ready");
}

#[tokio::test]
async fn the_status_and_the_wait_are_switchable() {
    let layer = places(1).too_many_requests();
    let answer = turned_away(&layer, plain());
    assert_eq!(answer.status(), 429);
    for (wait, seconds) in [
        (Duration::from_millis(1), "1"),
        (Duration::ZERO, "1"),
        (Duration::from_millis(30_001), "31"),
        (Duration::MAX, "18446744073709551615"),
    ] {
        let answer = turned_away(&places(1).retry_after(wait), plain());
        assert_eq!(header(&answer, "retry-after"), Some(seconds), "{wait:?}");
    }
}

#[tokio::test]
async fn grpc_is_turned_away_in_its_own_words() {
    for content_type in [
        "application/grpc",
        "application/grpc+proto",
        "Application/gRPC;charset=utf-8",
        "application/grpc-web+proto",
    ] {
        let answer = turned_away(&places(1), typed(content_type));
        assert_eq!(answer.status(), 200);
        assert_eq!(header(&answer, "content-type"), Some(content_type));
        assert_eq!(header(&answer, "grpc-status"), Some("14"));
        assert_eq!(header(&answer, "grpc-retry-pushback-ms"), Some("1000"));
        assert_eq!(answer.body(), "");
    }
    for content_type in ["application/json", "application/grp", "", "text/grpc"] {
        let answer = turned_away(&places(1), typed(content_type));
        assert_eq!(answer.status(), 503, "{content_type}");
        assert_eq!(header(&answer, "grpc-status"), None);
    }
    let answer = turned_away(&places(1).too_many_requests(), typed("application/grpc"));
    assert_eq!(header(&answer, "grpc-status"), Some("8"));
    for (wait, millis) in [
        (Duration::from_micros(1), "1"),
        (Duration::from_secs(3), "3000"),
        (Duration::MAX, "2147483647"),
    ] {
        let layer = places(1).retry_after(wait);
        let answer = turned_away(&layer, typed("application/grpc"));
        assert_eq!(header(&answer, "grpc-retry-pushback-ms"), Some(millis));
    }
}

#[tokio::test]
async fn clients_of_ours_hear_that_the_work_was_not_begun() {
    let judge = |answer: &Answer| -> Verdict {
        let classify = HttpClassifier::new();
        let memo = steadfast::Replay::<Request<()>>::memo(&classify, &plain());
        Classify::<Request<()>, Answer>::classify(&classify, &memo, Ok(answer))
    };
    let full = judge(&turned_away(&places(1), plain()));
    assert_eq!(
        (full.work(), full.health()),
        (Work::NotDone, Health::Failing)
    );
    assert_eq!(full.hint(), Some(Duration::from_secs(1)));
    let quota = judge(&turned_away(&places(1).too_many_requests(), plain()));
    assert_eq!(
        (quota.work(), quota.health()),
        (Work::NotDone, Health::Neutral)
    );

    #[cfg(feature = "grpc")]
    {
        use steadfast::grpc::GrpcClassifier;

        let answer = turned_away(&places(1), typed("application/grpc"));
        let classify = GrpcClassifier::new();
        let full = Classify::<Request<()>, Answer>::classify(&classify, &false, Ok(&answer));
        assert_eq!(
            (full.work(), full.health()),
            (Work::NotDone, Health::Failing)
        );
        assert_eq!(full.hint(), Some(Duration::from_secs(1)));
    }
}

#[tokio::test]
async fn a_task_that_has_used_up_its_turn_finds_the_free_place() {
    // Readiness of a buffer goes through tokio's cooperative budget.
    let handler = service_fn(|_: Request<()>| ready(Ok::<_, Infallible>(Answer::default())));
    let service = places(1).layer(Buffer::new(handler, 8));
    let (sender, mut receiver) = mpsc::unbounded_channel();
    for _ in 0..10_000 {
        sender.send(()).unwrap();
    }
    let mut call = pin!(service.oneshot(plain()));
    let mut first = true;
    let answer = poll_fn(|cx| {
        // Tokio takes the turn away while there are messages left.
        while first && receiver.poll_recv(cx).is_ready() {}
        first = false;
        call.as_mut().poll(cx)
    });
    assert_eq!(answer.await.unwrap().status(), 200);
    assert!(!receiver.is_empty());
}

#[tokio::test]
async fn all_services_of_one_layer_share_its_places() {
    let handler = Handler::new();
    let layer = places(1);
    let (one, other) = (layer.layer(handler.clone()), layer.layer(handler.clone()));
    let apart = places(1).layer(handler.clone());
    let mut held = task::spawn(one.oneshot(plain()));
    assert_pending!(held.poll());
    let mut away = task::spawn(other.oneshot(plain()));
    assert_eq!(assert_ready!(away.poll()).unwrap().status(), 503);
    let mut call = task::spawn(apart.oneshot(plain()));
    assert_pending!(call.poll());
}

#[tokio::test]
async fn more_places_than_there_can_be_are_no_limit() {
    let handler = Handler::new();
    let mut call = task::spawn(places(u32::MAX).layer(handler).oneshot(plain()));
    assert_pending!(call.poll());
}

#[test]
fn the_service_and_its_future_can_be_sent() {
    fn all<T: Clone + Send + Sync + 'static>(_: &T) {}
    fn sent<T: Send>(_: &T) {}
    let mut service = places(1).layer(Handler::new());
    all(&service);
    sent(&service.call(plain()));
}

#[cfg(feature = "axum")]
#[tokio::test]
async fn a_router_sheds_over_all_its_routes() {
    use axum::body::Body;
    use axum::{Router, routing::get};

    let app = Router::new()
        .route("/slow", get(std::future::pending::<&'static str>))
        .route("/quick", get(|| async { "17" }))
        .layer(places(1));
    let to = |path: &str| Request::get(path).body(Body::empty()).unwrap();
    let quick = app.clone().oneshot(to("/quick")).await.unwrap();
    assert_eq!(quick.status(), 200);
    let mut slow = task::spawn(app.clone().oneshot(to("/slow")));
    assert_pending!(slow.poll());
    let away = app.clone().oneshot(to("/quick")).await.unwrap();
    assert_eq!(away.status(), 503);
    assert_eq!(away.headers()["retry-after"], "1");
    drop(slow);
    assert_eq!(app.oneshot(to("/quick")).await.unwrap().status(), 200);
}
