//! Tells the next hop how much time is left.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Request};
use pin_project_lite::pin_project;
use tower::{BoxError, Layer, Service};

use super::form::DeadlineHeader;
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind};
use crate::moment::Moment;
use crate::scope::Scope;
use crate::scope::ambient::Ambient;

/// Writes what is left of the deadline in scope into each request.
///
/// Stands directly around the client, *inside* the stack, so that it sees each
/// attempt: the second is told of less time than the first. What it writes is
/// what is left of the total, not the attempt timeout. With the latter a server
/// would give up work that the caller still has time for, and would be asked to
/// do it again.
///
/// Without a deadline in scope nothing is written. A request that has such a
/// header already keeps it where that grants less; what it grants beyond the
/// deadline, and what cannot be read, is replaced.
///
/// A server that keeps to what it was told answers that it is out of time when
/// the deadline would have cut it off, and is judged as if that had: an attempt
/// that fails once what was granted is over says something about the dependency
/// only if it ran for half of the attempt timeout or total, and is not tried
/// again. Callers with little time do not open the breaker for all others.
///
/// The scope is read in `call`, in the task of the caller. A `Buffer` between
/// the stack and this layer calls it from a task of its own, where nothing is
/// in scope.
///
/// # Errors
///
/// Where nothing is left to grant, nothing is sent: the call fails with an
/// [`Error`](crate::Error) of kind
/// [`DeadlineExceeded`](crate::ErrorKind::DeadlineExceeded), which no stack
/// tries again. All other errors are the client's own, boxed; whoever looks for
/// them in the chain of sources finds them as before.
///
/// # Cancel safety
///
/// As safe as the client's own future; dropping it drops that.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use std::time::Duration;
/// use http::{Request, Response};
/// use steadfast::http::{DeadlineHeader, OutboundDeadlineLayer};
/// use steadfast::{Policy, ServiceBuilderExt};
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// let policy = Policy::builder("inventory").deadline(Duration::from_secs(2)).build().unwrap();
/// let client = ServiceBuilder::new()
///     .resilience(policy)
///     .layer(
///         OutboundDeadlineLayer::new(DeadlineHeader::envoy())
///             .reserving(Duration::from_millis(50))
///             .numbering(http::HeaderName::from_static("x-envoy-attempt-count")),
///     )
///     .service(service_fn(|request: Request<()>| async move {
///         let left = &request.headers()["x-envoy-upstream-rq-timeout-ms"];
///         let left: u64 = left.to_str().unwrap().parse().unwrap();
///         assert!((1..=1950).contains(&left));
///         assert_eq!(request.headers()["x-envoy-attempt-count"], "1");
///         Ok::<_, std::io::Error>(Response::new(()))
///     }));
/// client.oneshot(Request::new(())).await.unwrap();
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct OutboundDeadlineLayer {
    settings: Settings,
}

#[derive(Clone, Debug)]
struct Settings {
    header: DeadlineHeader,
    reserve: Duration,
    number: Option<HeaderName>,
}

impl OutboundDeadlineLayer {
    /// Writes what is left in this form.
    #[must_use]
    pub const fn new(header: DeadlineHeader) -> Self {
        Self {
            settings: Settings {
                header,
                reserve: Duration::ZERO,
                number: None,
            },
        }
    }

    /// Grants this much less than what is left: the time that an answer needs
    /// on its way back.
    ///
    /// # Default
    ///
    /// Nothing, because what is right depends on the way. About one round trip
    /// lets the answer "out of time" arrive before the caller itself is.
    #[must_use]
    pub const fn reserving(mut self, reserve: Duration) -> Self {
        self.settings.reserve = reserve;
        self
    }

    /// Writes the number of the attempt, from 1, into the header `name` too;
    /// Envoy's is `x-envoy-attempt-count`. One that the request has already is
    /// replaced. Outside of any attempt nothing is written.
    #[must_use]
    pub fn numbering(mut self, name: HeaderName) -> Self {
        self.settings.number = Some(name);
        self
    }
}

impl<S> Layer<S> for OutboundDeadlineLayer {
    type Service = OutboundDeadlineService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        OutboundDeadlineService {
            inner,
            settings: self.settings.clone(),
        }
    }
}

/// Service of [`OutboundDeadlineLayer`].
#[derive(Clone, Debug)]
pub struct OutboundDeadlineService<S> {
    inner: S,
    settings: Settings,
}

impl<S, B> Service<Request<B>> for OutboundDeadlineService<S>
where
    S: Service<Request<B>>,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = OutboundDeadlineFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let scope = Scope::current();
        let left = scope.deadline().map(Deadline::remaining);
        let attempt = scope.attempt();
        let sent = self.settings.write(request.headers_mut(), left, attempt);
        let sending = sent.ok().map(|granted| {
            if let (Some(granted), 1..) = (granted, attempt) {
                Ambient::grant_until(Moment::now() + granted);
            }
            self.inner.call(request)
        });
        OutboundDeadlineFuture { sending }
    }
}

/// Nothing is left to grant.
#[derive(Debug)]
struct NothingLeft;

impl Settings {
    /// Says how much the deadline granted, as it is written; nothing where the
    /// request's own header granted less.
    fn write(
        &self,
        headers: &mut HeaderMap,
        left: Option<Duration>,
        attempt: u32,
    ) -> Result<Option<Duration>, NothingLeft> {
        let mut granted = None;
        if let Some(left) = left {
            let left = left.saturating_sub(self.reserve);
            let own = self.header.read(headers).filter(|own| *own < left);
            let value = self.header.encode(own.unwrap_or(left));
            let value = value.ok_or(NothingLeft)?;
            if own.is_none() {
                granted = self.header.parse(&value);
            }
            headers.insert(self.header.name(), value);
        }
        if let (Some(name), 1..) = (&self.number, attempt) {
            headers.insert(name, HeaderValue::from(attempt));
        }
        Ok(granted)
    }
}

pin_project! {
    /// Future of [`OutboundDeadlineService`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless awaited"]
    pub struct OutboundDeadlineFuture<F> {
        // None where nothing was sent.
        #[pin]
        sending: Option<F>,
    }
}

impl<F, Res, E> Future for OutboundDeadlineFuture<F>
where
    F: Future<Output = Result<Res, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Res, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().sending.as_pin_mut() {
            Some(sending) => sending.poll(cx).map_err(Into::into),
            None => Poll::Ready(Err(too_late().into())),
        }
    }
}

/// Final for every stack around: a further attempt would have less time still.
fn too_late() -> Error {
    Error::new(ErrorKind::DeadlineExceeded, "the next hop").owning_retries(true)
}
