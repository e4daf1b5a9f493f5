//! The breaker as a handle, for policies and for code without a stack.

use std::borrow::Cow;
use std::sync::Arc;

use tokio::time::Instant;

use super::config::BreakerConfig;
use super::core::Core;
use super::state::{BreakerState, Ticket};
use crate::classify::verdict::Verdict;
use crate::config::ConfigError;
use crate::name::intern;
use crate::refusal::Refusal;

/// A circuit breaker: shared memory of how a dependency fares.
///
/// A handle: clones are the same breaker. Give one to several policies, or ask
/// it directly where there is no service to wrap: streams, connection pools,
/// a second opinion on a call.
///
/// Outcomes are counted while it is closed. When a trip rule holds it opens,
/// and calls are refused without touching the dependency. When the open time
/// is over, the next call is a probe; while the probes are out everyone else
/// is still refused. A probe that fails opens it again, probes that succeed
/// close it.
///
/// An outcome counts only in the period in which its call was admitted: the
/// late answer of an old call neither opens nor closes anything.
///
/// The clock is tokio's, so a test can pause and advance it.
///
/// # Examples
///
/// ```
/// use steadfast::{Breaker, BreakerConfig, BreakerState};
///
/// let breaker = Breaker::new("inventory", BreakerConfig::consecutive(2))?;
/// for _ in 0..2 {
///     breaker.admit().unwrap().failure();
/// }
/// assert_eq!(breaker.state(), BreakerState::Open);
/// let refusal = breaker.admit().unwrap_err();
/// assert_eq!(refusal.dependency(), "inventory");
/// assert!(refusal.retry_after().is_some());
/// # Ok::<(), steadfast::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Breaker {
    core: Arc<Core>,
}

impl Breaker {
    /// A closed breaker. The name stands in refusals and events; names made
    /// at run time are kept for the life of the process, each once.
    ///
    /// # Errors
    ///
    /// Settings that cannot work, by field and value.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        config: BreakerConfig,
    ) -> Result<Self, ConfigError> {
        let core = Core::new(intern(name.into()), &config)?;
        drop(config);
        Ok(Self {
            core: Arc::new(core),
        })
    }

    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    /// The dependency's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.core.name()
    }

    /// Where it stands now.
    #[must_use]
    pub fn state(&self) -> BreakerState {
        self.core.state(Instant::now())
    }

    /// Whether a call would be admitted now. A look: nothing is reserved, and
    /// an [`admit`](Self::admit) that follows may still be refused.
    ///
    /// # Errors
    ///
    /// The refusal that the call would get.
    pub fn would_admit(&self) -> Result<(), Refusal> {
        self.core.would_admit(Instant::now)
    }

    /// Admits a call or refuses it. What comes of the call is told to the
    /// [`Permit`].
    ///
    /// # Errors
    ///
    /// A refusal, which says when to come back.
    pub fn admit(&self) -> Result<Permit, Refusal> {
        let ticket = self.core.admit(Instant::now)?;
        Ok(Permit {
            breaker: self.clone(),
            ticket: Some(ticket),
        })
    }
}

/// Leave to make one call.
///
/// Tell it the outcome; dropped without one it counts as neither success nor
/// failure, and a half-open breaker gets the probe's slot back.
#[derive(Debug)]
#[must_use = "a permit that is dropped counts for nothing"]
pub struct Permit {
    breaker: Breaker,
    ticket: Option<Ticket>,
}

impl Permit {
    /// The dependency works.
    pub fn success(self) {
        self.record(&Verdict::success());
    }

    /// The dependency is failing.
    pub fn failure(self) {
        self.record(&Verdict::transient());
    }

    /// An answer that says nothing about the dependency's health. Unlike a
    /// drop it is an answer: ten in a row let a half-open breaker move on.
    pub fn neutral(self) {
        self.record(&Verdict::blocked());
    }

    /// What a verdict says of the dependency's health.
    pub fn record(mut self, verdict: &Verdict) {
        if let Some(ticket) = self.ticket.take() {
            self.breaker.core.record(ticket, verdict, Instant::now);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.breaker.core.give_up(ticket);
        }
    }
}
