//! HTTP: what answers and errors mean, what headers say, and what to do about
//! bodies.
//!
//! Feature `http`. The types are those of the `http` and `http-body` crates, so
//! that it fits every client and server built on them; `hyper` and `reqwest`
//! recognise the errors of these clients, `axum` makes answers of errors, and
//! `grpc` (module `grpc`) speaks tonic's language.
//!
//! # Where each part stands
//!
//! ```text
//! server   ShedLayer             more than so many at once are turned away
//!          InboundDeadlineLayer  what the caller has left, and the retry stop
//!          AnswerErrorsLayer     what could not be answered, as a problem
//!          ── your handler ──
//! client   ExtensionsLayer       wishes of one request, the report in its answer
//!          IdempotencyKeyLayer   one key per call
//!          ReplayLayer           bodies that can be sent again
//!          fallback, resilience  the stack, with an HttpClassifier
//!          ── once per attempt ──
//!          OutboundDeadlineLayer what is left, for the next hop
//!          LookLayer             what an error's body says
//!          WatchBodyLayer        how a body ends, for the breaker
//!          ── your client ──
//! ```
//!
//! All are optional; the stack and the classifier do by themselves.
//!
//! # Examples
//!
//! ```
//! use std::time::Duration;
//! use steadfast::http::{
//!     DeadlineHeader, HttpClassifier, OutboundDeadlineLayer, ReplayLayer, WatchBodyLayer,
//! };
//! use steadfast::{Policy, ServiceBuilderExt};
//! use tower::ServiceBuilder;
//!
//! # type Body = http_body_util::Full<bytes::Bytes>;
//! # let client = tower::service_fn(|_: http::Request<steadfast::http::ReplayBody<Body>>| async {
//! #     Ok::<_, std::io::Error>(http::Response::new(String::from("body")))
//! # });
//! let policy = Policy::builder("inventory").classify(HttpClassifier::new()).build()?;
//! let inventory = ServiceBuilder::new()
//!     .layer(ReplayLayer::default())
//!     .resilience(policy)
//!     .layer(OutboundDeadlineLayer::new(DeadlineHeader::envoy()))
//!     .layer(WatchBodyLayer::new().idle(Duration::from_secs(15)))
//!     .service(client);
//! # let _ = tower::Service::call(&mut { inventory }, http::Request::new(Body::default()));
//! # Ok::<(), steadfast::ConfigError>(())
//! ```
//!
//! `examples/gateway` has all of it in one place, and [`guide`](crate::guide) a
//! page for each client: which of its own retries to switch off, which limits to
//! set.

mod answer;
pub(crate) mod body;
pub(crate) mod carried;
mod classify;
mod deadline;
mod extensions;
mod fault;
mod head;
mod hint;
mod idempotency;
mod key;
mod number;
mod problem;
mod provider;
#[cfg(feature = "reqwest")]
mod reqwest;
mod seal;
mod shed;
mod span;
mod status;
mod stop;
pub(crate) mod told;
mod trailers_only;
mod watch;

pub use answer::{
    AnswerErrors, AnswerErrorsFuture, AnswerErrorsLayer, BodyFn, FromBytes, MakeBody,
};
pub use body::{
    CopyBody, ErrorBody, LookFuture, LookLayer, LookService, Looked, ReplayBody, ReplayError,
    ReplayLayer, ReplayService,
};
pub use classify::{HttpClassifier, HttpMemo};
pub use deadline::{
    DeadlineHeader, InboundDeadlineFuture, InboundDeadlineLayer, InboundDeadlineService,
    OutboundDeadlineFuture, OutboundDeadlineLayer, OutboundDeadlineService,
};
pub use extensions::{ExtensionsLayer, WithExtensions, WithExtensionsFuture};
pub use fault::judge_error;
pub use head::AnswerHead;
pub use hint::Hints;
pub use key::{IdempotencyKey, IdempotencyKeyLayer};
pub use problem::Problem;
pub use provider::{Provider, ProviderError, ProviderErrorKind};
pub use seal::Sealed;
pub use shed::{Shed, ShedFuture, ShedLayer};
pub use span::{AttemptSpan, AttemptSpanFuture, AttemptSpanLayer};
pub use watch::{BodyCut, WatchBody, WatchBodyFuture, WatchBodyLayer, WatchedBody};
