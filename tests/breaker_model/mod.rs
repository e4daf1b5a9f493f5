//! A breaker as slow and as obvious as can be, and what drives it and the real
//! one side by side.
//!
//! `settings`, `reference` and what that is made of know nothing of the crate:
//! times are nanoseconds since the breaker was made, rates are whole percents.
//! `steps` is what can happen; `drive` does it to both and compares. Who makes
//! the steps up is not of this module: `generate` for proptest, and a fuzz target.

#![allow(
    unreachable_pub,
    reason = "modules of a test, of which nothing is public"
)]

pub mod drive;
pub mod outcomes;
pub mod recovery;
pub mod reference;
pub mod settings;
pub mod steps;

/// A millisecond.
pub const MS: u64 = 1_000_000;
