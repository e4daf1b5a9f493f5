//! If and when a call is tried again.
//!
//! The loop asks `decide` after each attempt, in a fixed order and without
//! side effects until the last question; `service` starts a call, `future`
//! drives it.

pub(crate) mod backoff;
pub(crate) mod budget;
mod call;
mod decide;
mod deferrable;
mod future;
mod layer;
mod service;
mod shared;

pub(crate) use deferrable::Deferrable;
pub use deferrable::DeferrableLoop;
pub use future::RetryFuture;
pub use layer::{RetryLayer, RetryLayerBuilder};
pub use service::RetryService;
pub(crate) use service::start;
pub(crate) use shared::{LiveSettings, LoopShared, RetrySettings};
