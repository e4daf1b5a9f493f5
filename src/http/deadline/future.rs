//! A handler at work within its deadline.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{HeaderValue, Response};
use pin_project_lite::pin_project;

use super::answer::too_late;
use crate::http::stop::stop_retries;
use crate::scope::ambient::Ambient;
use crate::scope::current::Entered;
use crate::scope::marks::Marks;
use crate::stage::timer::Timer;

pin_project! {
    /// Future of [`InboundDeadlineService`](super::InboundDeadlineService).
    #[derive(Debug)]
    #[must_use = "futures do nothing unless awaited"]
    pub struct InboundDeadlineFuture<F> {
        // None once it has ended, or where the request came too late.
        #[pin]
        handler: Option<F>,
        #[pin]
        timer: Timer,
        frame: Ambient,
        // The content type of a gRPC request.
        grpc: Option<HeaderValue>,
    }
}

impl<F> InboundDeadlineFuture<F> {
    pub(super) const fn begun(handler: F, frame: Ambient, grpc: Option<HeaderValue>) -> Self {
        Self::new(Some(handler), frame, grpc)
    }

    pub(super) const fn late(frame: Ambient, grpc: Option<HeaderValue>) -> Self {
        Self::new(None, frame, grpc)
    }

    const fn new(handler: Option<F>, frame: Ambient, grpc: Option<HeaderValue>) -> Self {
        Self {
            handler,
            timer: Timer::unarmed(),
            frame,
            grpc,
        }
    }
}

impl<F, R, E> Future for InboundDeadlineFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: Default,
{
    type Output = Result<Response<R>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let Some(handler) = this.handler.as_mut().as_pin_mut() else {
            return Poll::Ready(Ok(too_late(this.grpc.as_ref())));
        };
        let mut frame = this.frame.within(Ambient::current());
        let entered = Entered::new(&mut frame);
        let polled = handler.poll(cx);
        drop(entered);
        let given_up = frame.given_up();
        this.frame.set(Marks::GIVEN_UP, given_up);
        let result = match (polled, frame.deadline()) {
            (Poll::Ready(result), _) => result,
            (Poll::Pending, None) => return Poll::Pending,
            (Poll::Pending, Some(deadline)) => {
                ready!(this.timer.poll_until(deadline, cx));
                Ok(too_late(this.grpc.as_ref()))
            }
        };
        this.handler.set(None);
        // Those around in this task hear of it as well.
        Ambient::mark_given_up(given_up);
        Poll::Ready(result.map(|answer| stop_retries(answer, given_up)))
    }
}
