//! A breaker as slow and as obvious as can be, and what drives it and the real
//! one side by side.
//!
//! `settings` and `reference` know nothing of the crate: times are nanoseconds
//! since the breaker was made, rates are whole percents. `steps` makes up what
//! happens; `drive` does it to both and compares.

#![allow(
    unreachable_pub,
    reason = "modules of a test, of which nothing is public"
)]

pub mod drive;
pub mod reference;
pub mod settings;
pub mod steps;

/// A millisecond.
pub const MS: u64 = 1_000_000;
