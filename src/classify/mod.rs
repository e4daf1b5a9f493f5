//! Who judges an attempt, and what a request allows.
//!
//! [`Replay`](crate::Replay) concerns the request alone: can it be copied, may
//! it be sent twice. [`Classify`](crate::Classify) judges the result. They are
//! two traits because a fallback or a key function needs the first where the
//! response type of the judged service is not known.
//!
//! A classifier sees an error as `&(dyn Error + Send + Sync)`. Services below
//! fail with concrete types as well as with boxed ones, and what matters (a
//! refused connection, an overload of our own) often stands deep in the chain
//! of sources; one view serves both.

pub(crate) mod default;
pub(crate) mod traits;
pub(crate) mod verdict;

pub use default::{ClassifyFn, IdempotentIf, classify_fn};
