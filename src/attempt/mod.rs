//! One try: readiness and call, within its limits, judged once.
//!
//! The inner service's readiness is driven inside the call, after admission
//! and under the limits. So a service that is never ready times out and
//! counts, nothing is reserved while a caller waits elsewhere, and an open
//! breaker never touches the service.

mod layer;
mod running;
mod stage;

pub use layer::AttemptLayer;
pub use running::AttemptRunning;
pub use stage::AttemptStage;
