//! A reference model of the whole loop: slow, obvious, and on its own. It
//! imports nothing from the crate; the test maps its plain types to the public
//! API and compares.
//!
//! All times are whole milliseconds since the run began.
//!
//! # How events are kept apart
//!
//! The model plays several calls at once, and two events at one instant would
//! have no defined order. So every duration is a multiple of [`GRAIN`], call
//! number i starts i ms after a multiple of it, and all that happens to that
//! call stays on that offset. Two kinds of event have an offset of their own:
//! deadlines ([`DEADLINE_OFFSET`]) and drops ([`DROP_OFFSET`]). An attempt timeout
//! that falls on the very instant of the answer is the one tie left;
//! [`arrange`] moves such an answer by one grain.
//!
//! Whole milliseconds are also what tokio's timers count in, from an epoch at
//! which the paused clock stands when the runtime is made. So nothing is rounded,
//! and times are compared exactly.
//!
//! Who makes up policies and calls is not of this module: `generate` for proptest,
//! and a fuzz target.

// Shared by the modules of one test, reachable from nowhere else.
#![allow(unreachable_pub)]

pub mod arrange;
pub mod breaker;
pub mod budget;
pub mod policy;
pub mod run;

/// Milliseconds since the run began, or a number of them.
pub type Ms = u64;

/// Every duration is a multiple of this, save those with an offset.
pub const GRAIN: Ms = 128;
/// The most calls of one run: each has an offset of its own.
pub const MOST_CALLS: usize = 40;
/// Deadlines end this much after a multiple of the grain (seen from the call).
pub const DEADLINE_OFFSET: Ms = 41;
/// Callers leave this much after a multiple of the grain (seen from the call).
pub const DROP_OFFSET: Ms = 82;
