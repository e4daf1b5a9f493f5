//! Refused work, put off instead of failed: for batches, queues and jobs.
//!
//! A breaker's refusal says that the work was not done, not that it was done
//! badly ([`Error::is_deferrable`](crate::Error::is_deferrable)). Somebody who
//! waits for an answer wants to hear of it at once. A job does not: it is
//! parked here and comes back when the dependency does.
//!
//! # When a parked call comes back
//!
//! - *When*: at the breaker's next check and up to a tenth later (never
//!   earlier), as others wait for the same instant elsewhere; and as soon as the
//!   breaker closes, whoever closed it.
//! - *How many*: a backlog that comes back at once is the outage's second half.
//!   Each new call that is admitted lets at most one parked call come back. Where
//!   new calls stay away, one comes back in the time in which one used to come
//!   (at least one a second; a crowd that came in one instant over ten
//!   seconds). While the breaker probes or recovers, it is asked for every one
//!   of them, so that its probes and its ramp hold.
//! - *In which order*: the oldest first, for each breaker of a registry. A call
//!   that is refused once more keeps its place.
//!
//! A call comes back as a new call of the loop: with all attempts, and a copy of
//! the request made by the policy's classifier. One that cannot be copied, or
//! whose copy was spoilt, is not put off. Nor are failures that no breaker had a
//! part in, and answers (`Ok`) are only where the breaker alone forbade another
//! attempt.
//!
//! # Bounds
//!
//! In number and in time ([`DeferLayer`]), and by the deadline. A call that runs
//! into one, or would before the breaker's next check, is refused at once: with
//! the refusal that it would have had, and the bound as
//! [`Error::park_limit`](crate::Error::park_limit).
//!
//! To observers and in metrics each return is a call of its own;
//! [`Event::Parked`](crate::telemetry::Event) and `Unparked` tell of the whole.
//!
//! A call costs a copy of its request and another clone of the service; nothing
//! is locked while nothing is parked. A parked call keeps the last error that it
//! was given, and no answer.
//!
//! # Examples
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! use std::time::Duration;
//! use steadfast::{BreakerConfig, Policy, ServiceBuilderExt, defer::DeferLayer};
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! let policy = Policy::builder("model")
//!     .no_deadline() // jobs wait out an outage
//!     .max_attempts(3)
//!     .breaker(BreakerConfig::consecutive(2))
//!     .build()
//!     .unwrap();
//! let start = tokio::time::Instant::now();
//! let client = ServiceBuilder::new()
//!     .deferring_resilience(policy, DeferLayer::new().longest(Duration::from_secs(3600)))
//!     .service(service_fn(move |job: u32| async move {
//!         match start.elapsed() < Duration::from_secs(120) {
//!             true => Err(std::io::Error::other("down")),
//!             false => Ok(job),
//!         }
//!     }));
//! assert_eq!(client.oneshot(7).await.unwrap(), 7); // two minutes later
//! # }
//! ```

mod future;
mod layer;
mod pace;
mod place;
mod queue;
mod service;
mod shared;

pub use future::DeferFuture;
pub use layer::DeferLayer;
pub use service::DeferService;
