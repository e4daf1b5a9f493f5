//! HTTP: what answers and errors mean, and what headers say.
//!
//! Feature `http`. The types are those of the `http` and `http-body` crates, so
//! that it fits every client and server built on them.

mod classify;
mod fault;
mod head;
mod hint;
mod idempotency;
mod number;
mod seal;
mod status;

pub use classify::{HttpClassifier, HttpMemo};
pub use fault::judge_error;
pub use head::AnswerHead;
pub use hint::Hints;
pub use seal::Sealed;
