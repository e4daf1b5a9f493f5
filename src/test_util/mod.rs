//! For tests of code that stands on a policy; feature `test-util`.
//!
//! - [`ScriptedService`]: a dependency that does what the test says: answers,
//!   fails, hangs, is slow, is not ready, panics; and notes what was asked of it.
//! - [`force_state`]: a breaker that is open, half-open or recovering, without
//!   the failures and the time that it takes.
//! - [`set_budget_balance`]: a retry budget that is spent.
//!
//! What else a test needs is there without the feature. Jitter is seeded by
//! [`Backoff::seed`](crate::Backoff::seed),
//! [`BreakerConfig::seed`](crate::BreakerConfig::seed) and
//! [`DeferLayer::seed`](crate::defer::DeferLayer::seed); time is tokio's, which a
//! test can pause (tokio's own `test-util`). The guide
//! [testing your policy](crate::guide::testing_your_policy) puts them together.
//!
//! The feature is not part of `full`, so that nothing of this is built into a
//! program by accident: name it among the dev-dependencies. It adds what stands
//! here and changes nothing else.
//!
//! ```toml
//! [dev-dependencies]
//! steadfast = { version = "0.1", features = ["test-util"] }
//! tokio = { version = "1", features = ["macros", "rt", "test-util"] }
//! ```

mod budget;
mod call;
mod error;
mod future;
mod script;
mod service;
mod state;
mod step;

pub use budget::set_budget_balance;
pub use call::ScriptedCall;
pub use error::ScriptedError;
pub use future::ScriptedFuture;
pub use service::ScriptedService;
pub use state::force_state;
pub use step::Step;
