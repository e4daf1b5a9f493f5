//! steadfast

pub mod attempt;
pub mod breaker;
mod builder;
pub mod classify;
mod config;
pub mod deadline;
mod error;
pub mod fallback;
mod name;
mod policy;
mod refusal;
pub mod retry;
mod scope;
mod sharded;
mod span;
mod stack;
pub mod stage;
pub mod telemetry;

pub use breaker::config::{BreakerConfig, Window};
pub use breaker::handle::{Breaker, Permit};
pub use breaker::state::BreakerState;
pub use builder::ServiceBuilderExt;
pub use classify::default::DefaultClassify;
pub use classify::traits::{Classify, Replay};
pub use classify::verdict::{Again, Health, Reason, Verdict, Work};
pub use config::ConfigError;
pub use deadline::value::Deadline;
pub use error::{Error, ErrorKind, Stopped};
pub use policy::{BreakerSetting, Description, FnService, Policy, PolicyBuilder, PolicyCall};
pub use refusal::{Refusal, RefusalReason};
pub use retry::backoff::Backoff;
pub use retry::budget::RetryBudget;
pub use scope::report::{CallReport, Capture, ServedBy};
pub use scope::{Scope, Scoped};
pub use stack::{Resilience, ResilienceLayer};
