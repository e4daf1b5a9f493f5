//! A span for each attempt, as OpenTelemetry names things.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tower::{Layer, Service};
use tracing::Span;
use tracing::field::Empty;

use crate::scope::Scope;

/// Makes a `tracing` span of each attempt, so that a trace shows every send and
/// which of them were resent.
///
/// Stands directly around the client, *inside* the stack: OpenTelemetry's
/// [conventions for HTTP clients][spans] want a span of kind client for each
/// send, not one for the whole call, and number those after the first by
/// `http.request.resend_count`. The fields, by the names there:
///
/// | field | value |
/// |---|---|
/// | `otel.kind` | `client` |
/// | `otel.name` | the method, which is all that a client knows of low cardinality |
/// | `http.request.method` | the method; one that is none of RFC 9110 or RFC 5789 is `_OTHER` |
/// | `http.request.resend_count` | 1 for the first resend, and so on; not there for the first send |
/// | `server.address`, `server.port` | out of the request's URI, where it names them |
/// | `http.response.status_code` | once there is an answer |
/// | `error.type` | the status code from 400 on; `_OTHER` for an error |
///
/// `url.full` is not there: it holds what must not be in a trace as often as
/// not. The number is the one of the nearest stack around, in the same task;
/// outside of any attempt there is none.
///
/// The span is of the target `steadfast` and at INFO, unlike all events of
/// single requests: it is there because this layer was put there, and a trace
/// without it would have a hole at the usual filter. It ends with the head of
/// the answer.
///
/// # Cancel safety
///
/// As safe as the client's own future; dropping it drops that, and ends the
/// span.
///
/// # Examples
///
/// ```
/// use steadfast::http::AttemptSpanLayer;
/// use steadfast::{Policy, ServiceBuilderExt};
/// use tower::ServiceBuilder;
/// # use http::{Request, Response};
/// # let client = tower::service_fn(|_: Request<()>| async { Ok::<_, std::io::Error>(Response::new(())) });
///
/// let policy = Policy::builder("inventory").build()?;
/// let client = ServiceBuilder::new()
///     .resilience(policy)
///     .layer(AttemptSpanLayer::new())
///     .service(client);
/// # let mut client = client;
/// # let _ = tower::Service::call(&mut client, Request::new(()));
/// # Ok::<(), steadfast::ConfigError>(())
/// ```
///
/// [spans]: https://opentelemetry.io/docs/specs/semconv/http/http-spans/#http-request-retries-and-redirects
#[derive(Clone, Copy, Debug, Default)]
pub struct AttemptSpanLayer {
    _private: (),
}

impl AttemptSpanLayer {
    /// A span for each request that passes.
    #[must_use]
    pub const fn new() -> Self {
        Self { _private: () }
    }
}

impl<S> Layer<S> for AttemptSpanLayer {
    type Service = AttemptSpan<S>;

    fn layer(&self, inner: S) -> Self::Service {
        AttemptSpan { inner }
    }
}

/// Service of [`AttemptSpanLayer`].
#[derive(Clone, Debug)]
pub struct AttemptSpan<S> {
    inner: S,
}

impl<S, B, A> Service<Request<B>> for AttemptSpan<S>
where
    S: Service<Request<B>, Response = Response<A>>,
{
    type Response = Response<A>;
    type Error = S::Error;
    type Future = AttemptSpanFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let span = span(&request, Scope::current().attempt());
        let future = span.in_scope(|| self.inner.call(request));
        AttemptSpanFuture { future, span }
    }
}

fn span<B>(request: &Request<B>, attempt: u32) -> Span {
    let method = method(request.method());
    let uri = request.uri();
    let resends = attempt.checked_sub(1).filter(|resends| *resends > 0);
    tracing::info_span!(
        target: "steadfast",
        "attempt",
        otel.kind = "client",
        otel.name = if method == OTHER { "HTTP" } else { method },
        http.request.method = method,
        http.request.resend_count = resends,
        server.address = uri.host(),
        server.port = uri.port_u16().or_else(|| default_port(uri.scheme_str())),
        http.response.status_code = Empty,
        error.type = Empty,
    )
}

/// What the conventions put in the place of names without bound.
const OTHER: &str = "_OTHER";

fn method(method: &http::Method) -> &str {
    match method.as_str() {
        known @ ("GET" | "HEAD" | "POST" | "PUT" | "DELETE" | "CONNECT" | "OPTIONS" | "TRACE"
        | "PATCH") => known,
        _ => OTHER,
    }
}

fn default_port(scheme: Option<&str>) -> Option<u16> {
    match scheme {
        Some("http") => Some(80),
        Some("https") => Some(443),
        _ => None,
    }
}

pin_project! {
    /// Future of [`AttemptSpan`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless awaited"]
    pub struct AttemptSpanFuture<F> {
        #[pin]
        future: F,
        span: Span,
    }
}

impl<F, A, E> Future for AttemptSpanFuture<F>
where
    F: Future<Output = Result<Response<A>, E>>,
{
    type Output = Result<Response<A>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let polled = this.span.in_scope(|| this.future.poll(cx));
        match &polled {
            Poll::Pending => {}
            Poll::Ready(Ok(answer)) => {
                let status = answer.status();
                this.span
                    .record("http.response.status_code", status.as_u16());
                if status.as_u16() >= 400 {
                    this.span.record("error.type", status.as_str());
                }
            }
            Poll::Ready(Err(_)) => {
                this.span.record("error.type", OTHER);
            }
        }
        polled
    }
}
