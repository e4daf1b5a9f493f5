#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../README.md")]
//!
//! # The order, and why
//!
//! *Retry decides if, backoff how long, jitter when, the breaker whether at
//! all, the fallback where else.* Each needs the others in one place only:
//!
//! - **The breaker inside the loop.** It is asked before every attempt and
//!   hears of every attempt. Around the loop it counts a call of four attempts
//!   as one failure, learns four times later, and the loop sleeps its way
//!   through an outage that everyone else knows of.
//! - **The attempt timeout inside the breaker.** A dependency that hangs is
//!   then one that fails. Outside of it the breaker would see dropped calls,
//!   which prove nothing.
//! - **The deadline around the loop.** Attempts, waits and readiness share
//!   what the caller has left; no wait begins towards an attempt that could not
//!   be made any more.
//! - **Defer between the deadline and the loop.** A parked call holds no
//!   attempt, no permit and no budget charge, and its deadline still runs.
//! - **The fallback outermost.** Inside the loop it would answer each attempt,
//!   and neither loop nor breaker would ever see a failure.
//!
//! # Nested stacks
//!
//! A service that calls a service that calls a service, each with a stack of
//! four attempts, sends four requests and not sixty-four: the stack closest to
//! the failure owns the retries, and its error, or a mark that it leaves in the
//! scope of the task, tells the stacks further out that all has been tried. A
//! stack with one attempt owns no retries; it leaves them to the next one out.
//!
//! # A loop that nobody owns
//!
//! A model that calls a tool again at every error is a retry loop without
//! budget, backoff or breaker, and each of its sessions has one. Retries and
//! breaker belong into the tool or the gateway, where all sessions meet;
//! [`Error::for_model`] says plainly that it is over, and [`CallCap`] is the
//! wall for those who call all the same. `examples/agent.rs` counts the sends.
//!
//! # Memory and clocks
//!
//! The clock is tokio's `Instant`, so that `tokio::time::pause` drives
//! breakers, budgets and deadlines in tests, and jitter can be seeded; for the
//! rest of a test there is `test_util` (feature `test-util`) and a page in the
//! [`guide`]. All waits are rounded up to the timer's millisecond. A call that is dropped gives back what it holds; a
//! panic in a service or a classifier passes through and harms no other call;
//! one of an [observer](telemetry::Observer) ends there and harms none at all.

pub mod attempt;
#[cfg(feature = "axum")]
mod axum;
pub mod breaker;
mod builder;
pub mod classify;
mod config;
pub mod deadline;
pub mod defer;
mod draws;
mod error;
pub mod fallback;
#[cfg(feature = "grpc")]
pub mod grpc;
pub mod guide;
#[cfg(feature = "http")]
pub mod http;
mod limit;
mod moment;
mod name;
#[cfg(feature = "serde")]
mod notice;
mod policy;
mod refusal;
pub mod retry;
mod scope;
mod sharded;
mod span;
mod stack;
pub mod stage;
mod sync;
pub mod telemetry;
#[cfg(feature = "test-util")]
pub mod test_util;

pub use breaker::config::{BreakerConfig, Window};
pub use breaker::handle::{Breaker, Permit};
pub use breaker::late::LatePermit;
#[cfg(feature = "keyed")]
pub use breaker::registry::Breakers;
pub use breaker::snapshot::BreakerSnapshot;
pub use breaker::state::BreakerState;
pub use breaker::watch::BreakerWatch;
pub use builder::ServiceBuilderExt;
pub use classify::default::DefaultClassify;
pub use classify::traits::{Classify, Replay};
pub use classify::verdict::{Again, Health, Reason, Verdict, Work};
pub use config::ConfigError;
pub use deadline::value::Deadline;
pub use error::{Error, ErrorKind, ParkLimit, Stopped};
#[cfg(feature = "serde")]
pub use notice::RefusalNotice;
pub use policy::{
    BreakerSetting, Description, FnService, IntoBreakers, Policy, PolicyBuilder, PolicyCall,
    PolicyChanges,
};
#[cfg(feature = "serde")]
pub use policy::{NamedBreaker, PolicySnapshot};
pub use refusal::{Refusal, RefusalReason};
pub use retry::backoff::Backoff;
pub use retry::budget::RetryBudget;
pub use scope::cap::CallCap;
pub use scope::report::{CallReport, Capture, ServedBy};
pub use scope::{Scope, Scoped};
pub use stack::{Deferring, DeferringLayer, Resilience, ResilienceLayer};
