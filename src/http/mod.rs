//! HTTP: what answers and errors mean, and what headers say.
//!
//! Feature `http`. The types are those of the `http` and `http-body` crates, so
//! that it fits every client and server built on them.

mod answer;
pub(crate) mod carried;
mod hint;
mod number;
mod problem;
mod shed;
pub(crate) mod told;

pub use answer::{
    AnswerErrors, AnswerErrorsFuture, AnswerErrorsLayer, BodyFn, FromBytes, MakeBody,
};
pub use hint::Hints;
pub use problem::Problem;
pub use shed::{Shed, ShedFuture, ShedLayer};
