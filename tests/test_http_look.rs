//! A look at the bodies of error answers.

#![cfg(feature = "http")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod support;

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::channel::{Channel, Sender};
use http_body_util::{BodyExt, Full};
use steadfast::Deadline;
use steadfast::http::{ErrorBody, LookFuture, LookLayer, LookService, Looked};
use support::{Clock, secs};
use tokio_test::{assert_pending, assert_ready, task};
use tower::{Layer, ServiceExt, service_fn};

/// At most 8 bytes, within 1 s.
fn layer() -> LookLayer {
    LookLayer::new().at_most(8).within(secs(1.0))
}

/// Sends an answer of that status and body through `layer`.
async fn answer<B>(layer: LookLayer, status: u16, body: B) -> Response<Looked<B>>
where
    B: Body + Unpin,
{
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::from_u16(status).unwrap();
    let mut answer = Some(answer);
    let client = layer.layer(service_fn(move |()| {
        std::future::ready(Ok::<_, Infallible>(answer.take().unwrap()))
    }));
    client.oneshot(()).await.unwrap()
}

fn seen<B: Body>(answer: &Response<Looked<B>>) -> ErrorBody {
    answer.extensions().get::<ErrorBody>().unwrap().clone()
}

async fn collect<B: Body<Error: std::fmt::Debug>>(answer: Response<Looked<B>>) -> Bytes {
    answer.into_body().collect().await.unwrap().to_bytes()
}

/// A body of which no part may be looked at.
struct Untouched;

impl Body for Untouched {
    type Data = Bytes;
    type Error = Infallible;
    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        panic!("the body was read")
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_no_error_is_not_touched() {
    let t = Clock::start();
    for status in [101, 200, 201, 204, 206, 302, 304, 399] {
        let answer = answer(layer(), status, Untouched).await;
        assert!(answer.extensions().get::<ErrorBody>().is_none());
        assert!(!answer.body().is_end_stream());
        assert_eq!(answer.body().size_hint().exact(), None);
    }
    t.assert_now(0.0);
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_an_answer_that_is_no_error_goes_through_as_it_comes() {
    let (mut source, body) = Channel::<Bytes, Infallible>::new(4);
    let mut body = answer(layer(), 200, body).await.into_body();
    for data in ["first", "second"] {
        assert_pending!(task::spawn(body.frame()).poll());
        source.send_data(data.into()).await.unwrap();
        let frame = assert_ready!(task::spawn(body.frame()).poll());
        assert_eq!(frame.unwrap().unwrap().into_data().unwrap(), data);
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_is_seen_and_handed_on_with_its_trailers_at_once() {
    let t = Clock::start();
    let trailers =
        HeaderMap::from_iter([(http::header::ETAG, HeaderValue::from_static("checksum"))]);
    for status in [400, 404, 429, 500, 529, 599] {
        let (mut source, body) = Channel::<Bytes, Infallible>::new(4);
        for data in ["over", "", "load"] {
            source.send_data(data.into()).await.unwrap();
        }
        let frame = Frame::trailers(trailers.clone());
        source.try_send(frame).unwrap();
        drop(source);
        let answer = answer(layer(), status, body).await;
        assert_eq!(seen(&answer), ErrorBody::complete("overload"));
        assert_eq!(answer.body().size_hint().lower(), 8);
        assert_eq!(answer.body().size_hint().exact(), None);
        let whole = answer.into_body().collect().await.unwrap();
        assert_eq!(whole.trailers(), Some(&trailers));
        assert_eq!(whole.to_bytes(), "overload");
    }
    t.assert_now(0.0);
}

/// A body that knows when no data is left, and has trailers.
struct Knows(Vec<Frame<Bytes>>);

impl Body for Knows {
    type Data = Bytes;
    type Error = Infallible;
    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop().map(Ok))
    }
    fn size_hint(&self) -> SizeHint {
        let data = self.0.iter().filter_map(Frame::data_ref);
        SizeHint::with_exact(data.map(|data| data.len() as u64).sum())
    }
}

#[tokio::test(start_paused = true)]
async fn no_exact_size_is_announced_before_trailers() {
    let trailers = Frame::trailers(HeaderMap::new());
    let body = Knows(vec![trailers, Frame::data("text".into())]);
    let answer = answer(layer(), 500, body).await;
    assert_eq!(seen(&answer), ErrorBody::complete("text"));
    assert_eq!(answer.body().size_hint().exact(), None);
    assert_eq!(answer.body().size_hint().lower(), 4);
    let whole = answer.into_body().collect().await.unwrap();
    assert!(whole.trailers().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_body_of_the_limit_is_complete_and_one_byte_more_is_cut() {
    for (text, expected) in [
        ("", ErrorBody::complete("")),
        ("12345678", ErrorBody::complete("12345678")),
        ("123456789", ErrorBody::truncated("12345678")),
    ] {
        for pieces in [text.len().max(1), 1, 3] {
            let (mut source, body) = Channel::<Bytes, Infallible>::new(16);
            for piece in text.as_bytes().chunks(pieces) {
                let piece = Bytes::copy_from_slice(piece);
                source.send_data(piece).await.unwrap();
            }
            drop(source);
            let answer = answer(layer(), 500, body).await;
            assert_eq!(seen(&answer), expected, "{text} in pieces of {pieces}");
            assert_eq!(collect(answer).await, text);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_nothing_sees_nothing() {
    let t = Clock::start();
    let text = Full::<Bytes>::from("text");
    let nothing = answer(layer().at_most(0), 500, text.clone()).await;
    assert_eq!(seen(&nothing), ErrorBody::truncated(""));
    assert_eq!(collect(nothing).await, "text");
    let all = answer(layer().at_most(usize::MAX), 500, text.clone()).await;
    assert_eq!(seen(&all), ErrorBody::complete("text"));
    // What is there at once is seen without a wait.
    let no_time = layer().within(secs(0.0));
    assert_eq!(
        seen(&answer(no_time, 500, text).await),
        ErrorBody::complete("text")
    );
    let (_source, never) = Channel::<Bytes, Infallible>::new(1);
    assert_eq!(
        seen(&answer(no_time, 500, never).await),
        ErrorBody::truncated("")
    );
    t.assert_now(0.0);
}

/// Gives the same frame for ever, and counts how often.
struct Endless(&'static str, Arc<AtomicUsize>);

impl Body for Endless {
    type Data = Bytes;
    type Error = Infallible;
    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(self.0.into()))))
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_without_end_is_read_no_further_than_the_limit() {
    for (data, seen_first, most) in [("abc", "abcabcab", 3), ("", "", 64)] {
        let polls = Arc::default();
        let answer = answer(layer(), 500, Endless(data, Arc::clone(&polls))).await;
        assert_eq!(seen(&answer), ErrorBody::truncated(seen_first));
        assert_eq!(polls.load(Ordering::Relaxed), most);
        // All that was read is handed on, before the rest is read.
        let mut body = answer.into_body();
        for _ in 0..most {
            let frame = body.frame().await.unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), data);
            assert_eq!(polls.load(Ordering::Relaxed), most);
        }
        body.frame().await;
        assert_eq!(polls.load(Ordering::Relaxed), most + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_frame_is_not_kept_for_its_beginning() {
    let large = Bytes::from(vec![b'x'; 1 << 20]);
    let answer = answer(layer(), 500, Full::new(large.clone())).await;
    let seen = seen(&answer);
    assert_eq!(seen, ErrorBody::truncated("xxxxxxxx"));
    let kept = large.as_ptr_range();
    assert!(!kept.contains(&seen.bytes().as_ptr()));
    assert_eq!(collect(answer).await, large);
}

async fn trickle(mut source: Sender<Bytes, io::Error>) {
    for data in ["a", "b", "c"] {
        tokio::time::sleep(secs(0.4)).await;
        source.send_data(data.into()).await.unwrap();
    }
    tokio::time::sleep(secs(0.4)).await;
    source.abort(io::Error::other("gone"));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_trickles_holds_up_the_answer_no_longer_than_the_time_limit() {
    let t = Clock::start();
    let (source, body) = Channel::new(1);
    tokio::spawn(trickle(source));
    let answer = answer(layer(), 503, body).await;
    t.assert_now(1.0);
    assert_eq!(seen(&answer), ErrorBody::truncated("ab"));
    // The rest is read as it comes, and the error comes at its place.
    let mut body = answer.into_body();
    for data in ["a", "b", "c"] {
        let frame = body.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), data);
    }
    t.assert_now(1.2);
    assert_eq!(body.frame().await.unwrap().unwrap_err().to_string(), "gone");
}

#[tokio::test(start_paused = true)]
async fn a_look_leaves_half_of_the_time_before_the_deadline() {
    for (left, looked) in [(9.0, 1.0), (1.0, 0.5), (0.0, 0.0)] {
        let t = Clock::start();
        let (_source, body) = Channel::<Bytes, Infallible>::new(1);
        let call = answer(layer(), 503, body);
        let answer = Deadline::after(secs(left)).scope(call).await;
        assert_eq!(seen(&answer), ErrorBody::truncated(""));
        t.assert_now(looked);
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_fails_while_it_is_looked_at_fails_where_it_did() {
    let t = Clock::start();
    let (source, body) = Channel::new(1);
    tokio::spawn(trickle(source));
    let answer = answer(layer().within(secs(9.0)), 503, body).await;
    t.assert_now(1.6);
    assert_eq!(seen(&answer), ErrorBody::truncated("abc"));
    let mut body = answer.into_body();
    for data in ["a", "b", "c"] {
        assert!(!body.is_end_stream());
        let frame = body.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), data);
    }
    assert!(!body.is_end_stream());
    assert_eq!(body.frame().await.unwrap().unwrap_err().to_string(), "gone");
    assert!(body.is_end_stream());
    assert!(body.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn what_is_left_is_announced_as_it_is_handed_on() {
    let answer = answer(layer(), 500, Full::<Bytes>::from("123456789")).await;
    assert_eq!(answer.body().size_hint().exact(), Some(9));
    assert!(!answer.body().is_end_stream());
    let mut body = answer.into_body();
    body.frame().await.unwrap().unwrap();
    assert_eq!(body.size_hint().exact(), Some(0));
    assert!(body.is_end_stream());
    assert!(body.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_answer_dropped_while_it_is_looked_at_drops_its_body() {
    let (mut source, body) = Channel::<Bytes, Infallible>::new(1);
    let mut looking = task::spawn(answer(layer(), 500, body));
    assert_pending!(looking.poll());
    drop(looking);
    assert!(source.try_send(Frame::data(Bytes::new())).is_err());
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_client_is_passed_on() {
    let client = LookLayer::default().layer(service_fn(|()| async {
        Err::<Response<Full<Bytes>>, _>(io::Error::other("refused"))
    }));
    assert_eq!(client.oneshot(()).await.unwrap_err().to_string(), "refused");
}

#[test]
fn what_is_looked_at_can_be_sent_and_shared_as_the_body_can() {
    type Boxed = http_body_util::combinators::BoxBody<Bytes, io::Error>;
    type Unsync = http_body_util::combinators::UnsyncBoxBody<Bytes, io::Error>;
    const fn send<T: Send + 'static>() {}
    const fn sync<T: Send + Sync + Unpin + 'static>() {}
    sync::<Looked<Boxed>>();
    send::<Looked<Unsync>>();
    send::<LookFuture<std::future::Pending<()>, Unsync>>();
    sync::<LookLayer>();
    sync::<LookService<()>>();
    sync::<ErrorBody>();
}
