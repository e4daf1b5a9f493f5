//! Whether an attempt is made at all.
//!
//! The breaker stands inside the retry loop: it is asked before every attempt
//! and hears the verdict on every attempt. `state` and `window` are plain
//! engines, `core` makes them shared, `stage` connects them to a call.

pub(crate) mod config;
mod core;
pub(crate) mod handle;
mod in_flight;
mod layer;
mod ramp;
#[cfg(feature = "keyed")]
pub(crate) mod registry;
pub(crate) mod rules;
pub(crate) mod snapshot;
mod stage;
pub(crate) mod state;
mod window;

pub use layer::{BareAttempt, BreakerLayer};
#[cfg(feature = "keyed")]
pub use registry::KeyedBreakers;
pub(crate) use stage::settings;
pub use stage::{BreakerRunning, BreakerSettings, BreakerStage, OneBreaker, PickBreaker};
