//! How much of the stack a client has: the arrangements that a fleet is tried with. All are the
//! library's own parts on their default settings; the comparators lack some of them.

use std::num::NonZeroU32;

use steadfast::{Backoff, Policy, PolicyBuilder};

use super::chart::Ink;

/// Which parts guard a client's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrangement {
    NoRetries,
    RetriesAlone,
    BudgetOnly,
    BreakerOnly,
    Steadfast,
}

impl Arrangement {
    pub(crate) const ALL: [Self; 5] = [
        Self::NoRetries,
        Self::RetriesAlone,
        Self::BudgetOnly,
        Self::BreakerOnly,
        Self::Steadfast,
    ];

    /// For tables and legends.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::NoRetries => "no retries",
            Self::RetriesAlone => "retries alone",
            Self::BudgetOnly => "budget alone",
            Self::BreakerOnly => "breaker alone",
            Self::Steadfast => "steadfast",
        }
    }

    pub(crate) const fn ink(self) -> Ink {
        match self {
            Self::NoRetries => Ink::NoRetries,
            Self::RetriesAlone => Ink::RetriesAlone,
            Self::BudgetOnly => Ink::BudgetOnly,
            Self::BreakerOnly => Ink::Breaker,
            Self::Steadfast => Ink::Steadfast,
        }
    }

    /// The settings of one client: the default policy, less what this arrangement leaves out. Its
    /// waits are the default ones too, drawn from `seed`.
    pub(crate) fn settings(self, attempts: NonZeroU32, seed: u64) -> PolicyBuilder {
        let all = Policy::builder("dependency")
            .max_attempts(attempts.get())
            .backoff(Backoff::default().seed(seed));
        match self {
            Self::NoRetries => all.max_attempts(1).no_retry_budget().no_breaker(),
            Self::RetriesAlone => all.no_retry_budget().no_breaker(),
            Self::BudgetOnly => all.no_breaker(),
            Self::BreakerOnly => all.no_retry_budget(),
            Self::Steadfast => all,
        }
    }
}
