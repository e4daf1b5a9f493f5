//! Where else an answer can come from, once all inside has failed.
//!
//! The final stage: an ordered chain of entries. Each is a closure over the
//! [`Error`](crate::Error), a [`value`], or a [`service`] (which may be a
//! stack with a breaker of its own). The first that answers serves the call.
//!
//! What falls through by default: a call that was refused, ran out of time,
//! gave up on a failing dependency, or is blocked (401, a spend cap). What
//! does not: a throttled call, because our own excess must not be shoved on to
//! a secondary that is sized for a tenth of it; and a terminal answer, because
//! our own mistake is one there too. [`FallbackLayer::when`] changes it.
//!
//! An *answer* that the classifier judged to be a failure (an `Ok(503)`) falls
//! through by the same rule, when the stack that gave it is polled in the same
//! task; behind a `Buffer` only errors do.
//!
//! Such an answer is held while the entries are asked, because it stands if
//! they fail; a secondary must not wait for what it holds.
//!
//! A request that is not idempotent, by the [`replay`](Secondary::replay) of the
//! entry or the scope, goes to a service entry only if its work was certainly
//! not begun by the primary or an entry before: refused, never connected,
//! turned away.
//!
//! If all entries fail, the primary's result stands, with the last entry's
//! error as [`Error::fallback_error`](crate::Error::fallback_error).
//!
//! # Examples
//!
//! ```
//! use std::time::Duration;
//! use steadfast::fallback::{self, FallbackLayer};
//! use steadfast::{Error, Policy, ServiceBuilderExt};
//! use tower::{ServiceBuilder, ServiceExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! # let primary = tower::service_fn(|_: String| async { Err::<String, _>(std::io::Error::other("down")) });
//! # let secondary = tower::service_fn(|item: String| async move { Ok::<_, std::io::Error>(item) });
//! let policy = Policy::builder("inventory").max_attempts(1).build().unwrap();
//! let chain = fallback::service(secondary)
//!     .map_request(|item: String| format!("replica/{item}"))
//!     .limit(50)
//!     .or(fallback::with(|_: &Error| async { Ok::<_, Error>(String::from("unknown")) }));
//!
//! let client = ServiceBuilder::new()
//!     .layer(FallbackLayer::new(chain).within(Duration::from_secs(3)))
//!     .resilience(policy)
//!     .service(primary);
//! assert_eq!(client.oneshot("teapot".into()).await.unwrap(), "replica/teapot");
//! # }
//! ```

mod entry;
mod future;
mod layer;
mod secondary;
mod settings;

pub use entry::{FallbackEntry, Or, OrFuture, Value, With, WithFuture, value, with};
pub use future::FallbackFuture;
pub use layer::{FallbackLayer, FallbackService};
pub use secondary::{MapRequest, Same, Secondary, SecondaryFuture, service};
pub use settings::{ByDefault, FallsThrough};
