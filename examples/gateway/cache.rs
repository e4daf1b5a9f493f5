//! The last good answers, for when nobody else has one.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, to_bytes};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, WARNING};
use http::{HeaderValue, Method, Request, Response};
use http_body::Body as _;
use tower::{BoxError, Layer, Service};

/// Larger answers are not kept.
const LARGEST: u64 = 64 * 1024;
/// More than this many are not kept.
const MOST: usize = 1_000;

#[derive(Clone, Default)]
pub(crate) struct StaleCache {
    answers: Arc<Mutex<HashMap<String, Bytes>>>,
}

impl StaleCache {
    /// The fallback: a stale answer, or an error if there is none.
    pub(crate) fn answer(&self, path: &str) -> Result<Response<Body>, BoxError> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = answers.get(path).ok_or("nothing is cached")?;
        let mut answer = Response::new(Body::from(kept.clone()));
        let headers = answer.headers_mut();
        headers.insert(
            WARNING,
            HeaderValue::from_static("110 - \"Response is Stale\""),
        );
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(answer)
    }

    fn keep(&self, path: String, body: &Bytes) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() < MOST || answers.contains_key(&path) {
            answers.insert(path, body.clone());
        }
    }
}

/// Keeps what passes through. Below the stack, so that reading the answer is
/// part of the attempt: one that breaks off is tried again.
impl<S> Layer<S> for StaleCache {
    type Service = Keep<S>;

    fn layer(&self, inner: S) -> Keep<S> {
        Keep {
            inner,
            cache: self.clone(),
        }
    }
}

#[derive(Clone)]
pub(crate) struct Keep<S> {
    inner: S,
    cache: StaleCache,
}

impl<S, B> Service<Request<B>> for Keep<S>
where
    S: Service<
            Request<B>,
            Response = Response<Body>,
            Error: Into<BoxError>,
            Future: Send + 'static,
        >,
{
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let path = request.uri().path().to_owned();
        let is_read = request.method() == Method::GET;
        let cache = self.cache.clone();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await.map_err(Into::into)?;
            let length = answer.body().size_hint().exact();
            let is_small = length.is_some_and(|length| length <= LARGEST);
            if !(is_read && answer.status() == 200 && is_small) {
                return Ok(answer);
            }
            let (head, body) = answer.into_parts();
            let body = to_bytes(body, usize::MAX).await?;
            cache.keep(path, &body);
            Ok(Response::from_parts(head, Body::from(body)))
        })
    }
}
