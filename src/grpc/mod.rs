//! gRPC: status codes, hints, and errors as statuses.
//!
//! Feature `grpc`, for tonic. A stack stands between a generated client and its
//! channel, where requests and answers are those of HTTP:
//!
//! ```text
//! generated client  ->  StatusLayer  ->  stack (GrpcClassifier)  ->  Channel
//! ```

mod classifier;
mod code;
mod hints;
mod layer;
mod seal;
mod status;

pub use classifier::{GrpcClassifier, Idempotent, judge};
pub use code::{judge_trailers, verdict_of};
pub use hints::StatusHints;
pub use layer::{StatusFuture, StatusLayer, StatusService};
