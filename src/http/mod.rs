//! HTTP: what answers and errors mean, and what headers say.
//!
//! Feature `http`. The types are those of the `http` and `http-body` crates, so
//! that it fits every client and server built on them.

mod answer;
mod body;
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
#[cfg(feature = "reqwest")]
mod reqwest;
mod seal;
mod shed;
mod span;
mod status;
mod stop;
pub(crate) mod told;
mod watch;

pub use answer::{
    AnswerErrors, AnswerErrorsFuture, AnswerErrorsLayer, BodyFn, FromBytes, MakeBody,
};
pub use body::{CopyBody, ReplayBody, ReplayError, ReplayLayer, ReplayService};
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
pub use seal::Sealed;
pub use shed::{Shed, ShedFuture, ShedLayer};
pub use span::{AttemptSpan, AttemptSpanFuture, AttemptSpanLayer};
pub use watch::{BodyCut, WatchBody, WatchBodyFuture, WatchBodyLayer, WatchedBody};
