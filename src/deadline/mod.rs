//! How long a call may take, all attempts, waits and readiness included.
//!
//! A deadline is an absolute, monotonic instant. It is in scope for all that
//! a stack calls, so that nested stacks and code that writes headers see what
//! is left. A shorter one inside wins; a longer one never extends.

mod layer;
pub(crate) mod value;

pub use layer::RetryLoop;
pub use layer::{DeadlineLayer, DeadlineService};
pub(crate) use layer::{Within, sealed};
pub(crate) use value::{Deadline, instant_after};
