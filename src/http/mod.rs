//! HTTP: what answers and errors mean, and what headers say.
//!
//! Feature `http`. The types are those of the `http` and `http-body` crates, so
//! that it fits every client and server built on them.

mod body;
mod hint;
mod number;

pub use body::{
    CopyBody, ErrorBody, LookFuture, LookLayer, LookService, Looked, ReplayBody, ReplayError,
    ReplayLayer, ReplayService,
};
pub use hint::Hints;
