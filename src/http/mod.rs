//! HTTP: what answers and errors mean, and what headers say.
//!
//! Feature `http`. The types are those of the `http` and `http-body` crates, so
//! that it fits every client and server built on them.

mod deadline;
mod hint;
mod number;
mod stop;

pub use deadline::{
    DeadlineHeader, InboundDeadlineFuture, InboundDeadlineLayer, InboundDeadlineService,
    OutboundDeadlineFuture, OutboundDeadlineLayer, OutboundDeadlineService,
};
pub use hint::Hints;
