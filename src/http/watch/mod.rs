//! The breaker hears how the body of an answer ends.

mod body;
mod layer;

pub use body::{BodyCut, WatchedBody};
pub use layer::{WatchBody, WatchBodyFuture, WatchBodyLayer};
