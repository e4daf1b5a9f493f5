//! Cases from the field whose requests and answers are HTTP messages.

#![cfg(feature = "http")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod support;

use std::convert::Infallible;
use std::future::pending;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::{Body, Frame};
use http_body_util::channel::Channel;
use http_body_util::{BodyExt, Full};
use steadfast::http::{HttpClassifier, ReplayBody, ReplayLayer};
use steadfast::{Backoff, CallReport, ErrorKind, ServiceBuilderExt, Stopped, fallback};
use support::{Clock, Fault, assert_times, bare, bk, fault, kind, secs};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};

// ---- A04 -----------------------------------------------------------------------

/// A body that holds a connection until it is dropped.
struct Held {
    _connection: OwnedSemaphorePermit,
}

impl Body for Held {
    type Data = Bytes;
    type Error = Infallible;
    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(None)
    }
}

#[tokio::test(start_paused = true)]
async fn a04_the_body_of_an_answer_that_is_retried_gives_back_its_connection_before_the_backoff() {
    let t = Clock::start();
    let pool = Arc::new(Semaphore::new(1));
    let calls = Arc::new(Mutex::new(Vec::new()));
    let policy = bare()
        .max_attempts(2)
        .backoff(Backoff::fixed(secs(5.0)))
        .breaker(bk())
        .classify(HttpClassifier::new())
        .build()
        .unwrap();
    let (connections, log) = (Arc::clone(&pool), Arc::clone(&calls));
    let client = ServiceBuilder::new()
        .layer(ReplayLayer::default())
        .resilience(policy)
        .service(service_fn(move |_: Request<ReplayBody<String>>| {
            let (connections, log) = (Arc::clone(&connections), Arc::clone(&log));
            async move {
                let _connection = connections.acquire_owned().await?;
                let mut log = log.lock().unwrap();
                log.push(t.now());
                let mut answer = Response::new(Held { _connection });
                if log.len() == 1 {
                    *answer.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
                }
                Ok::<_, tokio::sync::AcquireError>(answer)
            }
        }));

    let call = tokio::spawn(client.oneshot(Request::new("x".to_owned())));
    t.reach(1.0).await;
    assert_eq!(pool.available_permits(), 1);
    let answer = call.await.unwrap().unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(pool.available_permits(), 0, "the body is the caller's now");
    assert_times(&calls.lock().unwrap(), &[0.0, 5.0]);
}

// ---- A29 -----------------------------------------------------------------------

/// What a server does with one request.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Reads all of the body, then answers.
    Read(u16),
    /// Reads one frame, then answers.
    ReadOne(u16),
    /// Answers without a look at the body.
    Ignore(u16),
    /// Breaks the connection after one frame.
    Reset,
}

/// A server that follows a script, and the bytes it has read of each request.
#[derive(Clone)]
struct Server {
    script: Arc<Mutex<Vec<Step>>>,
    read: Arc<Mutex<Vec<Bytes>>>,
}

impl Server {
    fn new(script: &[Step]) -> Self {
        let script = script.iter().rev().copied().collect();
        Self {
            script: Arc::new(Mutex::new(script)),
            read: Arc::default(),
        }
    }

    fn read(&self) -> Vec<Bytes> {
        self.read.lock().unwrap().clone()
    }

    async fn serve<B>(self, request: Request<B>) -> Result<Response<()>, Fault>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
    {
        let step = self.script.lock().unwrap().pop().unwrap();
        let mut body = request.into_body();
        let mut read = Vec::new();
        if !matches!(step, Step::Ignore(_)) {
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|_| Fault("the body failed"))?;
                read.extend(frame.into_data().unwrap());
                if !matches!(step, Step::Read(_)) {
                    break;
                }
            }
        }
        self.read.lock().unwrap().push(read.into());
        match step {
            Step::Reset => Err(Fault("reset")),
            Step::Read(status) | Step::ReadOne(status) | Step::Ignore(status) => {
                let mut answer = Response::new(());
                *answer.status_mut() = http::StatusCode::from_u16(status).unwrap();
                Ok(answer)
            }
        }
    }
}

/// Sends `body` to a server of that script, through a stack of three attempts.
async fn send<B>(script: &[Step], body: B) -> (Result<u16, steadfast::Error>, Vec<Bytes>)
where
    B: Body<Error: Into<BoxError>> + Unpin + Send + 'static,
{
    send_with_cap(1024, script, body).await
}

async fn send_with_cap<B>(
    cap: usize,
    script: &[Step],
    body: B,
) -> (Result<u16, steadfast::Error>, Vec<Bytes>)
where
    B: Body<Error: Into<BoxError>> + Unpin + Send + 'static,
{
    let server = Server::new(script);
    let policy = bare()
        .max_attempts(3)
        .classify(HttpClassifier::new())
        .build()
        .unwrap();
    let serving = server.clone();
    let client = ServiceBuilder::new()
        .layer(ReplayLayer::new(cap))
        .resilience(policy)
        .service(service_fn(move |request| serving.clone().serve(request)));
    let answer = client.oneshot(Request::new(body)).await;
    (answer.map(|answer| answer.status().as_u16()), server.read())
}

/// `a`, `b`, `c`, one at a time, each a tick after the one before.
fn streamed() -> Channel<Bytes, Infallible> {
    let (mut source, body) = Channel::new(1);
    tokio::spawn(async move {
        for data in ["a", "b", "c"] {
            tokio::time::sleep(secs(0.1)).await;
            if source.send_data(data.into()).await.is_err() {
                return;
            }
        }
    });
    body
}

#[tokio::test(start_paused = true)]
async fn a29_every_attempt_gets_the_whole_body_once() {
    let script = [Step::Read(503), Step::Read(500), Step::Read(200)];
    let three = ["abc"; 3].map(Bytes::from);
    let full = || Full::<Bytes>::from("abc");
    for (answer, read) in [
        send(&script, full()).await,
        send(&script, full().boxed()).await,
        send(&script, full().boxed_unsync()).await,
        send(&script, streamed()).await,
        send(&script, tonic::body::Body::new(streamed())).await,
    ] {
        assert_eq!(answer.unwrap(), 200);
        assert_eq!(read, three);
    }
}

#[tokio::test(start_paused = true)]
async fn a29b_an_attempt_that_fails_before_it_reads_leaves_the_body_to_the_next() {
    for step in [Step::Ignore(503), Step::ReadOne(503), Step::Reset] {
        let script = [step, step, Step::Read(200)];
        let (answer, read) = send(&script, streamed()).await;
        assert_eq!(answer.unwrap(), 200);
        assert_eq!(read.last().unwrap(), "abc", "{step:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a29c_a_request_without_a_copy_gets_the_servers_own_answer() {
    let (answer, read) = send_with_cap(2, &[Step::Read(503)], Full::<Bytes>::from("abc")).await;
    assert_eq!(answer.unwrap(), 503);
    assert_eq!(read, ["abc"]);
    // The same where the size is known only once it has been sent.
    let (answer, read) = send_with_cap(2, &[Step::Read(503)], streamed()).await;
    assert_eq!(answer.unwrap(), 503);
    assert_eq!(read, ["abc"]);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_has_outgrown_its_buffer_ends_the_call_with_the_error_of_its_attempt() {
    let long = Full::<Bytes>::from("abcdef");
    let (answer, _) = send_with_cap(2, &[Step::Reset], long).await;
    let error = answer.unwrap_err();
    assert_eq!(error.stopped(), Some(Stopped::NotReplayable));
    assert_eq!(fault(&error), Some(Fault("reset")));
}

/// A connection that answers 503 at once and goes on reading the body.
fn early_answer<B>(request: Request<B>) -> Response<()>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        let mut body = request.into_body();
        while let Some(Ok(_)) = body.frame().await {}
    });
    let mut answer = Response::new(());
    *answer.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
    answer
}

#[tokio::test(start_paused = true)]
async fn a_body_that_a_connection_reads_on_past_the_cap_during_the_backoff_is_not_sent_again() {
    let t = Clock::start();
    for (cap, sends) in [(2, 1), (3, 2)] {
        let count = Arc::new(Mutex::new(0));
        let calls = Arc::clone(&count);
        let policy = bare()
            .max_attempts(2)
            .backoff(Backoff::fixed(secs(1.0)))
            .classify(HttpClassifier::new())
            .build()
            .unwrap();
        let client = ServiceBuilder::new()
            .layer(ReplayLayer::new(cap))
            .resilience(policy)
            .service(service_fn(move |request| {
                *count.lock().unwrap() += 1;
                std::future::ready(Ok::<_, Infallible>(early_answer(request)))
            }));
        let begun = t.now();
        let answer = client.oneshot(Request::new(streamed())).await;
        assert_times(&[t.now() - begun], &[1.0]);
        assert_eq!(*calls.lock().unwrap(), sends);
        if sends == 2 {
            assert_eq!(answer.unwrap().status(), 503);
            continue;
        }
        assert_eq!(kind(&answer), Some(ErrorKind::Failed));
        let error = answer.unwrap_err();
        assert_eq!(error.stopped(), Some(Stopped::NotReplayable));
        assert_eq!(error.verdict().unwrap().reason(), 503.into());
    }
}

#[tokio::test(start_paused = true)]
async fn a_fallback_gets_the_whole_body_that_the_primary_has_read_in_part() {
    let primary = Server::new(&[Step::ReadOne(503), Step::Reset]);
    let secondary = Server::new(&[Step::Read(200)]);
    let policy = bare()
        .max_attempts(2)
        .classify(HttpClassifier::new())
        .build()
        .unwrap();
    let (first, second) = (primary.clone(), secondary.clone());
    let second = service_fn(move |request| second.clone().serve(request));
    let client = ServiceBuilder::new()
        .layer(ReplayLayer::default())
        .fallback(fallback::service(second).replay(HttpClassifier::new()))
        .resilience(policy)
        .service(service_fn(move |request| first.clone().serve(request)));
    let (answer, report) = CallReport::capture(client.oneshot(Request::new(streamed()))).await;
    assert_eq!(answer.unwrap().status(), 200);
    assert_eq!(report.unwrap().attempts(), 2);
    assert_eq!(primary.read(), ["a", "a"]);
    assert_eq!(secondary.read(), ["abc"]);
}

// ---- A25 -----------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn a25_a_post_is_not_sent_again_after_a_timeout() {
    for (method, sends, stopped) in [
        (Method::POST, 1, Stopped::NotIdempotent),
        (Method::GET, 3, Stopped::AttemptsExhausted),
    ] {
        let clock = Clock::start();
        let sent = AtomicUsize::new(0);
        let policy = bare()
            .attempt_timeout(secs(1.0))
            .max_attempts(3)
            .classify(HttpClassifier::new())
            .build()
            .unwrap();
        let client =
            ServiceBuilder::new()
                .resilience(policy)
                .service(service_fn(|_: Request<()>| {
                    sent.fetch_add(1, Ordering::Relaxed);
                    pending::<Result<Response<()>, Infallible>>()
                }));
        let request = Request::builder().method(&method).body(()).unwrap();
        let error = client.oneshot(request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(error.stopped(), Some(stopped));
        assert_eq!(sent.load(Ordering::Relaxed), sends, "{method}");
        clock.assert_now(f64::from(u32::try_from(sends).unwrap()));
    }
}
