//! The breaker hears how the body of an answer ends.

#![cfg(feature = "http")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on ends with a panic"
)]

mod support;

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::channel::{Channel, Sender};
use http_body_util::{BodyExt, Empty, Full};
use steadfast::http::{BodyCut, HttpClassifier, WatchBodyLayer, WatchedBody};
use steadfast::{BreakerConfig, BreakerState, Deadline, Policy, ServiceBuilderExt, Verdict};
use support::{Clock, plain, secs};
use tokio::time::{advance, sleep};
use tokio_test::{assert_pending, assert_ready, task};
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};

fn policy(config: BreakerConfig) -> Policy<HttpClassifier> {
    Policy::builder("feed")
        .max_attempts(1)
        .breaker(plain(config.open_time(secs(10.0))))
        .classify(HttpClassifier::new())
        .build()
        .unwrap()
}

fn counting() -> Policy<HttpClassifier> {
    policy(BreakerConfig::failure_rate(0.5).min_calls(100))
}

fn heard(policy: &Policy<HttpClassifier>) -> (u64, u64) {
    let seen = policy.breaker().unwrap().snapshot();
    (seen.calls(), seen.failures())
}

/// One call through the stack to a server that answers 200 with this body.
async fn ask<B: Body + Clone>(
    policy: &Policy<HttpClassifier>,
    layer: WatchBodyLayer,
    body: B,
) -> WatchedBody<B> {
    answered(policy, layer, Response::new(body))
        .await
        .into_body()
}

async fn answered<B: Body>(
    policy: &Policy<HttpClassifier>,
    layer: WatchBodyLayer,
    answer: Response<B>,
) -> Response<WatchedBody<B>> {
    // The one answer, for whoever comes first.
    let answer = std::sync::Arc::new(std::sync::Mutex::new(Some(answer)));
    let stack = ServiceBuilder::new()
        .resilience(policy.clone())
        .layer(layer)
        .service(service_fn(move |_: Request<()>| {
            let answer = answer.lock().unwrap().take().unwrap();
            async { Ok::<_, io::Error>(answer) }
        }));
    stack.oneshot(Request::new(())).await.unwrap()
}

async fn stream(
    policy: &Policy<HttpClassifier>,
    layer: WatchBodyLayer,
) -> (
    Sender<Bytes, io::Error>,
    WatchedBody<Channel<Bytes, io::Error>>,
) {
    let (source, body) = Channel::new(16);
    let answer = answered(policy, layer, Response::new(body)).await;
    (source, answer.into_body())
}

fn data(text: &'static str) -> Frame<Bytes> {
    Frame::data(Bytes::from_static(text.as_bytes()))
}

async fn next<B>(body: &mut WatchedBody<B>) -> Option<Result<Bytes, BoxError>>
where
    WatchedBody<B>: Body<Data = Bytes, Error = BoxError> + Unpin,
{
    let frame = body.frame().await?;
    Some(frame.map(|frame| frame.into_data().unwrap_or_default()))
}

#[tokio::test(start_paused = true)]
async fn a_body_that_ends_is_a_success_and_one_that_breaks_a_failure() {
    let policy = counting();
    let (mut source, body) = stream(&policy, WatchBodyLayer::new()).await;
    source.send(data("abc")).await.unwrap();
    assert_eq!(heard(&policy), (0, 0), "the head alone says nothing");
    drop(source);
    assert_eq!(body.collect().await.unwrap().to_bytes(), "abc");
    assert_eq!(heard(&policy), (1, 0));

    let (mut source, mut body) = stream(&policy, WatchBodyLayer::new()).await;
    source.send(data("ab")).await.unwrap();
    source.abort(io::Error::other("line cut"));
    assert_eq!(next(&mut body).await.unwrap().unwrap(), "ab");
    let error = next(&mut body).await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "line cut");
    assert_eq!(heard(&policy), (2, 1));
    assert!(next(&mut body).await.is_none(), "nothing follows an error");
    assert!(body.is_end_stream());
}

#[tokio::test(start_paused = true)]
async fn a_body_that_its_reader_drops_was_a_success_as_far_as_it_went() {
    let policy = counting();
    drop(stream(&policy, WatchBodyLayer::new()).await);
    assert_eq!(heard(&policy), (1, 0));
    let (mut source, mut body) = stream(&policy, WatchBodyLayer::new()).await;
    source.send(data("ab")).await.unwrap();
    next(&mut body).await.unwrap().unwrap();
    drop(body);
    assert_eq!(heard(&policy), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_dropped_while_its_reader_waits_says_nothing() {
    let policy = counting();
    for parts in [0, 1] {
        let (mut source, mut body) = stream(&policy, WatchBodyLayer::new()).await;
        for _ in 0..parts {
            source.send(data("ab")).await.unwrap();
            next(&mut body).await.unwrap().unwrap();
        }
        let read = tokio::time::timeout(secs(1.0), next(&mut body)).await;
        assert!(read.is_err());
        drop(body);
        assert_eq!(heard(&policy), (0, 0), "after {parts} parts");
    }
}

#[tokio::test(start_paused = true)]
async fn those_who_leave_bodies_unread_are_heard_as_often_when_all_is_well() {
    let policy = policy(BreakerConfig::failure_rate(0.5).min_calls(4));
    // One in five fails, and of no answer is more than the head read.
    for call in 0..20 {
        let (_source, body) = Channel::<Bytes, io::Error>::new(1);
        let status = if call % 5 == 0 { 500 } else { 200 };
        let answer = Response::builder().status(status).body(body).unwrap();
        drop(answered(&policy, WatchBodyLayer::new(), answer).await);
    }
    assert_eq!(heard(&policy), (20, 4));
    assert_eq!(policy.breaker().unwrap().state(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_breaker_recovers_by_answers_whose_bodies_nobody_reads() {
    let policy = policy(BreakerConfig::consecutive(1));
    policy.breaker().unwrap().admit().unwrap().failure();
    sleep(secs(10.0)).await;
    assert_eq!(policy.breaker().unwrap().state(), BreakerState::HalfOpen);
    drop(stream(&policy, WatchBodyLayer::new()).await);
    assert_eq!(policy.breaker().unwrap().state(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_stops_at_the_known_length_is_heard() {
    let policy = counting();
    let mut body = ask(
        &policy,
        WatchBodyLayer::new(),
        Full::new(Bytes::from("abc")),
    )
    .await;
    assert_eq!(body.size_hint().exact(), Some(3));
    assert_eq!(next(&mut body).await.unwrap().unwrap(), "abc");
    // Not polled again, as a server does that writes a body of known length.
    assert_eq!(heard(&policy), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_empty_body_ends_with_its_head() {
    let policy = counting();
    let body = ask(&policy, WatchBodyLayer::new(), Empty::<Bytes>::new()).await;
    assert_eq!(heard(&policy), (1, 0));
    drop(body);
    assert_eq!(heard(&policy), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_error_status_is_heard_at_its_head() {
    let policy = counting();
    let (_source, body) = Channel::<Bytes, io::Error>::new(1);
    let answer = Response::builder().status(404).body(body).unwrap();
    let answer = answered(&policy, WatchBodyLayer::new(), answer).await;
    assert_eq!(answer.status(), 404);
    assert_eq!(heard(&policy), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_stalls_is_cut_and_opens_the_breaker() {
    let policy = policy(BreakerConfig::consecutive(1));
    let layer = WatchBodyLayer::new().first_byte(secs(5.0)).idle(secs(2.0));
    let (mut source, mut body) = stream(&policy, layer).await;
    let clock = Clock::start();
    let (sent, read) = tokio::join!(
        async {
            sleep(secs(4.0)).await;
            source.send(data("a")).await
        },
        next(&mut body),
    );
    sent.unwrap();
    assert_eq!(read.unwrap().unwrap(), "a");
    let error = next(&mut body).await.unwrap().unwrap_err();
    let cut = error.downcast_ref::<BodyCut>().unwrap();
    assert_eq!(*cut, BodyCut::Idle(secs(2.0)));
    clock.assert_now(6.0);
    assert_eq!(policy.breaker().unwrap().state(), BreakerState::Open);
}

#[tokio::test(start_paused = true)]
async fn a_first_byte_that_does_not_come_is_a_failure() {
    let policy = counting();
    let layer = WatchBodyLayer::new().first_byte(secs(5.0));
    let (_source, mut body) = stream(&policy, layer).await;
    let clock = Clock::start();
    let error = next(&mut body).await.unwrap().unwrap_err();
    assert_eq!(
        *error.downcast_ref::<BodyCut>().unwrap(),
        BodyCut::FirstByte(secs(5.0))
    );
    assert_eq!(
        error.to_string(),
        "no part of the body within 5s of its head"
    );
    clock.assert_now(5.0);
    assert_eq!(heard(&policy), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_is_slow_itself_is_not_cut_off() {
    let policy = counting();
    let layer = WatchBodyLayer::new().first_byte(secs(1.0)).idle(secs(1.0));
    let (mut source, mut body) = stream(&policy, layer).await;
    sleep(secs(60.0)).await;
    for _ in 0..3 {
        source.send(data("a")).await.unwrap();
        sleep(secs(60.0)).await;
        assert_eq!(next(&mut body).await.unwrap().unwrap(), "a");
    }
    drop(source);
    assert!(next(&mut body).await.is_none());
    assert_eq!(heard(&policy), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn what_arrives_with_the_timeout_is_still_read() {
    let policy = counting();
    let (mut source, body) = stream(&policy, WatchBodyLayer::new().idle(secs(1.0))).await;
    let mut body = task::spawn(body);
    assert_pending!(body.enter(|cx, body| body.poll_frame(cx)));
    advance(secs(5.0)).await;
    source.try_send(data("a")).unwrap();
    let frame = assert_ready!(body.enter(|cx, body| body.poll_frame(cx)));
    assert_eq!(frame.unwrap().unwrap().into_data().unwrap(), "a");
}

#[tokio::test(start_paused = true)]
async fn the_first_byte_can_be_all_that_is_heard() {
    let policy = counting();
    let layer = WatchBodyLayer::new().until_first_byte().idle(secs(1.0));
    let (mut source, mut body) = stream(&policy, layer).await;
    // An empty part is no byte.
    source.send(data("")).await.unwrap();
    next(&mut body).await.unwrap().unwrap();
    assert_eq!(heard(&policy), (0, 0));
    source.send(data("a")).await.unwrap();
    next(&mut body).await.unwrap().unwrap();
    assert_eq!(heard(&policy), (1, 0));
    // Bounded still, and heard no more.
    next(&mut body).await.unwrap().unwrap_err();
    assert_eq!(heard(&policy), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn the_deadline_cuts_a_body_only_if_it_was_told_to() {
    for cuts in [false, true] {
        let policy = counting();
        let layer = if cuts {
            WatchBodyLayer::new().cut_at_deadline()
        } else {
            WatchBodyLayer::new()
        };
        let clock = Clock::start();
        let deadline = Deadline::after(secs(3.0));
        let (mut source, mut body) = deadline.scope(stream(&policy, layer)).await;
        let later = async {
            sleep(secs(10.0)).await;
            source.send(data("a")).await
        };
        let (_, read) = tokio::join!(later, async {
            let read = next(&mut body).await.unwrap();
            (read, clock.now())
        });
        let (read, at) = read;
        if cuts {
            let error = read.unwrap_err();
            assert_eq!(*error.downcast_ref::<BodyCut>().unwrap(), BodyCut::Deadline);
            assert!((3.0..3.002).contains(&at), "{at}");
        } else {
            assert_eq!(read.unwrap(), "a");
        }
        // Nobody promised that the body would be done by then.
        assert_eq!(heard(&policy), (0, 0));
    }
}

fn judge(trailers: &HeaderMap) -> Verdict {
    match trailers.get("x-status").map(http::HeaderValue::as_bytes) {
        Some(b"ok") => Verdict::success(),
        Some(_) => Verdict::transient(),
        None => Verdict::ambiguous(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_in_the_trailers_is_heard_and_so_is_its_absence() {
    for (status, failures) in [(Some("ok"), 0), (Some("broken"), 1), (None, 1)] {
        let policy = counting();
        let layer = WatchBodyLayer::new().judge_trailers(judge);
        let (mut source, mut body) = stream(&policy, layer).await;
        source.send(data("a")).await.unwrap();
        if let Some(status) = status {
            let trailers = HeaderMap::from_iter([(
                http::HeaderName::from_static("x-status"),
                status.parse().unwrap(),
            )]);
            source.send_trailers(trailers).await.unwrap();
        }
        drop(source);
        let mut frames = 0;
        while let Some(frame) = body.frame().await {
            frame.unwrap();
            frames += 1;
        }
        assert_eq!(
            frames,
            1 + usize::from(status.is_some()),
            "handed on unharmed"
        );
        assert_eq!(heard(&policy), (1, failures), "{status:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_stack_around_it_a_body_is_only_bounded() {
    let service = ServiceBuilder::new()
        .layer(WatchBodyLayer::new().idle(Duration::MAX))
        .service(service_fn(|(): ()| async {
            Ok::<_, io::Error>(Response::new(Full::new(Bytes::from("abc"))))
        }));
    let answer = service.oneshot(()).await.unwrap();
    assert_eq!(
        answer.into_body().collect().await.unwrap().to_bytes(),
        "abc"
    );
}

/// A body that is never pending and must not be polled after its end.
struct Strict(VecDeque<&'static str>, bool);

impl Body for Strict {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        assert!(!self.1, "polled after its end");
        self.1 = self.0.is_empty();
        Poll::Ready(self.0.pop_front().map(|text| Ok(data(text))))
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = SizeHint::new();
        hint.set_lower(self.0.iter().map(|text| text.len() as u64).sum());
        hint
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_is_not_polled_after_its_end() {
    let policy = counting();
    let strict = Strict(VecDeque::from(["a", "b"]), false);
    let answer = answered(&policy, WatchBodyLayer::new(), Response::new(strict)).await;
    let mut body = answer.into_body();
    assert_eq!(body.size_hint().lower(), 2);
    for expected in [Some("a"), Some("b"), None, None, None] {
        let read = next(&mut body).await.map(Result::unwrap);
        assert_eq!(read.as_deref(), expected.map(str::as_bytes));
    }
    assert_eq!(heard(&policy), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn parts_of_nothing_end_no_wait() {
    let policy = counting();
    let layer = WatchBodyLayer::new().idle(secs(3.0));
    let (mut source, body) = stream(&policy, layer).await;
    let clock = Clock::start();
    let trickle = async {
        while source.send(data("")).await.is_ok() {
            sleep(secs(1.0)).await;
        }
    };
    let read = async {
        let mut body = body;
        loop {
            if let Err(error) = next(&mut body).await.unwrap() {
                break error;
            }
        }
    };
    let (_, error) = tokio::join!(trickle, read);
    assert!(error.is::<BodyCut>(), "{error}");
    assert!(clock.now() < 5.0);
    assert_eq!(heard(&policy), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn the_deadline_cuts_a_body_whose_parts_are_always_there() {
    let policy = counting();
    let parts = Strict(std::iter::repeat_n("a", 100).collect(), false);
    let layer = WatchBodyLayer::new().cut_at_deadline();
    let deadline = Deadline::after(secs(3.0));
    let answer = deadline.scope(answered(&policy, layer, Response::new(parts)));
    let mut body = answer.await.into_body();
    let mut read = 0;
    let error = loop {
        match next(&mut body).await.unwrap() {
            Ok(_) => read += 1,
            Err(error) => break error,
        }
        sleep(secs(1.0)).await;
    };
    assert_eq!(error.downcast_ref(), Some(&BodyCut::Deadline));
    assert_eq!(read, 3);
}

#[tokio::test(start_paused = true)]
async fn a_status_in_the_head_is_all_that_there_is_to_hear() {
    let policy = counting();
    let layer = WatchBodyLayer::new().judge_trailers(judge);
    // Only its end tells that the body is empty.
    let (_, body) = Channel::<Bytes, io::Error>::new(1);
    let answer = Response::builder()
        .header("grpc-status", "0")
        .body(body)
        .unwrap();
    let answer = answered(&policy, layer, answer).await;
    assert_eq!(heard(&policy), (1, 0));
    assert!(next(&mut answer.into_body()).await.is_none());
    assert_eq!(heard(&policy), (1, 0));
}
