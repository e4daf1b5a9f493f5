//! Whether an attempt is made at all.
//!
//! The breaker stands inside the retry loop: it is asked before every attempt
//! and hears the verdict on every attempt.
//!
//! # States
//!
//! ```text
//!            a trip rule holds                 the open time is over
//!   closed ────────────────────▶ open ──────────────────────▶ half-open
//!      ▲                          ▲ ▲     a probe fails           │
//!      │                          │ └─────────────────────────────┤
//!      │        a sample fails    │                               │ probes succeed
//!      └──────────────────── recovering ◀─────────────────────────┘
//!        the ramp is over
//! ```
//!
//! By hand: forced open, disabled, reset.
//!
//! # Whose news counts
//!
//! Probes decide. Whatever was admitted before the last change of state changes
//! nothing any more, in any state: a late success from before the trip closes
//! no breaker, a late failure opens none, and a call that is dropped frees only
//! a slot that it held.
//!
//! A probe that is dropped gives its slot back and proves nothing. So does an
//! answer that says nothing of the dependency's health (a 401, a 429); but ten
//! of them in a row let half-open move on, since the dependency is there. A
//! probe that is out past its lease makes room for others; its success still
//! counts if half-open was not left since.
//!
//! # Judged by two at once
//!
//! One host of a dependency may be down while the others work. A breaker for
//! the whole stands in the policy; one for the host is asked by hand, where the
//! host is known. The host's refusal is final for the call and no evidence
//! against the whole, and what the host does is heard by both, each once:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! use steadfast::{Breaker, BreakerConfig, BreakerState, Policy};
//! use tower::BoxError;
//!
//! let whole = Policy::builder("inventory").max_attempts(1).build().unwrap();
//! let host = Breaker::new("inventory, host 7", BreakerConfig::consecutive(2)).unwrap();
//!
//! for _ in 0..4 {
//!     let answer = whole
//!         .call(|| async {
//!             let permit = host.admit()?; // a refusal of the host's breaker ends the call
//!             let answer = Err::<(), _>("connection reset"); // what host 7 said
//!             match &answer {
//!                 Ok(_) => permit.success(),
//!                 Err(_) => permit.failure(),
//!             }
//!             Ok::<_, BoxError>(answer?)
//!         })
//!         .await;
//!     assert!(answer.is_err());
//! }
//! assert_eq!(host.state(), BreakerState::Open);
//! // Two failures, not four: the other two never reached the dependency.
//! let seen = whole.breaker().unwrap().snapshot();
//! assert_eq!((seen.calls(), seen.failures()), (2, 2));
//! # }
//! ```
//!
//! # Inside
//!
//! `state`, `ramp` and `window` are plain engines, `core` makes them shared,
//! `stage` connects them to a call, `registry` keeps one per key.

pub(crate) mod alarm;
mod clock;
pub(crate) mod config;
mod core;
mod door;
pub(crate) mod handle;
mod in_flight;
pub(crate) mod late;
mod layer;
mod news;
mod open_time;
mod ramp;
#[cfg(feature = "keyed")]
pub(crate) mod registry;
pub(crate) mod rules;
pub(crate) mod snapshot;
mod stage;
pub(crate) mod state;
mod ticket;
pub(crate) mod watch;
mod window;

pub use layer::{BareAttempt, BreakerLayer};
#[cfg(feature = "keyed")]
pub use registry::KeyedBreakers;
pub use stage::{BreakerRunning, BreakerSettings, BreakerStage, OneBreaker, PickBreaker};
pub(crate) use stage::{pick, settings};
