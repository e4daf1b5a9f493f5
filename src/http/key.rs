//! One idempotency key per call.

use std::task::{Context, Poll};

use http::{HeaderName, HeaderValue, Request};
use tower::{Layer, Service};

use super::idempotency::IDEMPOTENCY_KEY;
use crate::notice::random_id;

/// Gives each call whose method is not idempotent an `Idempotency-Key`, so that
/// the server does its work once however often it is sent.
///
/// Stands above [`resilience`]: made once per call, the key is the same on
/// every attempt, and [`HttpClassifier`](super::HttpClassifier) then takes the
/// request as repeatable. **Only for servers that keep such keys**; to others
/// it is a header like any other, and a request that timed out may be done
/// twice. A key that the request brings along stays as it is.
///
/// The key is a random version 4 UUID, as the larger APIs document it.
/// [`quoted`](Self::quoted) writes it as the structured string of the IETF
/// draft `draft-ietf-httpapi-idempotency-key-header`.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use steadfast::{Policy, ServiceBuilderExt, http::{HttpClassifier, IdempotencyKeyLayer}};
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// let policy = Policy::builder("payments").classify(HttpClassifier::new()).build().unwrap();
/// let client = ServiceBuilder::new()
///     .layer(IdempotencyKeyLayer::new())
///     .resilience(policy)
///     .service(service_fn(|request: http::Request<String>| async move {
///         assert_eq!(request.headers()["idempotency-key"].len(), 36);
///         Ok::<_, std::io::Error>(http::Response::new(()))
///     }));
/// let payment = http::Request::post("/payments").body(String::from("7 EUR")).unwrap();
/// client.oneshot(payment).await.unwrap();
/// # }
/// ```
///
/// [`resilience`]: crate::ServiceBuilderExt::resilience
#[derive(Clone, Copy, Debug, Default)]
pub struct IdempotencyKeyLayer {
    quoted: bool,
}

impl IdempotencyKeyLayer {
    /// Keys without quotes.
    #[must_use]
    pub const fn new() -> Self {
        Self { quoted: false }
    }

    /// Keys in double quotes.
    #[must_use]
    pub const fn quoted(mut self) -> Self {
        self.quoted = true;
        self
    }
}

impl<S> Layer<S> for IdempotencyKeyLayer {
    type Service = IdempotencyKey<S>;

    fn layer(&self, inner: S) -> IdempotencyKey<S> {
        IdempotencyKey {
            inner,
            quoted: self.quoted,
        }
    }
}

/// Service of [`IdempotencyKeyLayer`].
#[derive(Clone, Copy, Debug)]
pub struct IdempotencyKey<S> {
    inner: S,
    quoted: bool,
}

impl<S, B> Service<Request<B>> for IdempotencyKey<S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        let is_keyed = request.headers().contains_key(IDEMPOTENCY_KEY);
        if !is_keyed && !request.method().is_idempotent() {
            let id = random_id();
            let text = if self.quoted { format!("\"{id}\"") } else { id };
            if let Ok(key) = HeaderValue::try_from(text) {
                let name = HeaderName::from_static(IDEMPOTENCY_KEY);
                request.headers_mut().insert(name, key);
            }
        }
        self.inner.call(request)
    }
}
