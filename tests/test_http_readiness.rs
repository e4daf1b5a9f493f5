//! Layers that change what is sent or answered are ready when what is inside
//! is: a service under a limit or a buffer counts on being waited for.

#![cfg(feature = "http")]

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::marker::PhantomData;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use steadfast::http::{
    AttemptSpanLayer, DeadlineHeader, ExtensionsLayer, IdempotencyKeyLayer, InboundDeadlineLayer,
    OutboundDeadlineLayer, ReplayBody, ReplayLayer, WatchBodyLayer,
};
use tokio_test::task;
use tower::{Layer, Service};

type Body = Full<Bytes>;

/// Ready at the second time of asking.
struct Hesitant<B> {
    is_asked: bool,
    takes: PhantomData<B>,
}

impl<B> Service<Request<B>> for Hesitant<B> {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        if std::mem::replace(&mut self.is_asked, true) {
            return Poll::Ready(Ok(()));
        }
        Poll::Pending
    }

    fn call(&mut self, _: Request<B>) -> Self::Future {
        ready(Ok(Response::default()))
    }
}

#[track_caller]
fn assert_waits<L, B>(layer: L)
where
    L: Layer<Hesitant<B>, Service: Service<Request<Body>>>,
{
    let mut service = layer.layer(Hesitant {
        is_asked: false,
        takes: PhantomData,
    });
    let mut task = task::spawn(());
    let mut is_ready = || task.enter(|cx, _| service.poll_ready(cx).is_ready());
    assert_eq!([is_ready(), is_ready()], [false, true]);
}

#[test]
fn a_layer_is_ready_when_what_is_inside_is() {
    assert_waits::<_, Body>(AttemptSpanLayer::new());
    assert_waits::<_, Body>(ExtensionsLayer::new());
    assert_waits::<_, Body>(IdempotencyKeyLayer::new());
    assert_waits::<_, Body>(InboundDeadlineLayer::uncapped());
    assert_waits::<_, Body>(OutboundDeadlineLayer::new(DeadlineHeader::envoy()));
    assert_waits::<_, ReplayBody<Body>>(ReplayLayer::new(1024));
    assert_waits::<_, Body>(WatchBodyLayer::new());
}
