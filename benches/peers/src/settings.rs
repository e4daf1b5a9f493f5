//! The settings that every contender is given, as far as it knows them.

use std::time::Duration;

pub const DEADLINE: Duration = Duration::from_secs(30);
pub const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);

/// The first included.
pub const MAX_ATTEMPTS: u32 = 3;

pub const BACKOFF_BASE: Duration = Duration::from_millis(100);
pub const BACKOFF_CAP: Duration = Duration::from_secs(20);

/// Longer than any run, also under an emulator.
pub const OPEN_TIME: Duration = Duration::from_secs(3600);

pub const WINDOW: Duration = Duration::from_secs(10);
pub const MIN_CALLS: u32 = 20;

/// How much of the traffic may be retries.
pub const BUDGET: f64 = 0.1;

/// Where a breaker is called with failures only, every so many calls succeed
/// all the same, so that not all of a window's calls have failed.
pub const FAILURES_PER_SUCCESS: u64 = 64;

/// When the breaker opens.
#[derive(Clone, Copy, PartialEq)]
pub enum Rule {
    /// At half of the calls failing, or as near to it as the peer comes.
    Half,
    /// Later than any workload goes: where failures are what is measured, or
    /// every other attempt is one.
    OutOfReach,
}

impl Rule {
    /// The share of failures that opens.
    pub fn share(self) -> f64 {
        match self {
            Self::Half => 0.5,
            Self::OutOfReach => 1.0,
        }
    }
}
