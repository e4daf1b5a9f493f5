//! The breaker as a handle, for policies and for code without a stack.

use std::borrow::Cow;
use std::sync::Arc;
use std::task::Waker;

use super::alarm::Alarm;
use super::config::BreakerConfig;
use super::core::{Core, Facts};
use super::snapshot::BreakerSnapshot;
use super::state::BreakerState;
use super::ticket::Ticket;
use super::watch::BreakerWatch;
use crate::classify::verdict::Verdict;
use crate::config::ConfigError;
use crate::moment::Moment;
use crate::name::Name;
use crate::refusal::Refusal;
use crate::telemetry::Observer;

/// A circuit breaker: shared memory of how a dependency fares.
///
/// A handle: clones are the same breaker. Give one to several policies, or ask
/// it directly where there is no service to wrap: streams, connection pools,
/// a second opinion on a call.
///
/// Outcomes are counted while it is closed. When a trip rule holds it opens,
/// and calls are refused without touching the dependency. When the open time
/// is over, the next call is a probe; while the probes are out everyone else
/// is still refused. A probe that fails opens it again. When the probes have
/// succeeded it recovers: a share of the calls passes that grows to all of
/// them, and then it is closed.
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
        let facts = Facts::new(Name::new(name.into()), &config)?;
        drop(config);
        Ok(Self::of(Arc::new(facts)))
    }

    /// One of those with these settings.
    pub(super) fn of(facts: Arc<Facts>) -> Self {
        let core = Arc::new(Core::new(facts));
        Self { core }
    }

    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    /// Whether nobody but the one who asks holds a handle, a permit or a call.
    #[cfg(feature = "keyed")]
    pub(super) fn is_unshared(&self) -> bool {
        Arc::strong_count(&self.core) == 1
    }

    /// Whether both are handles of one breaker.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.core, &other.core)
    }

    /// The dependency's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.core.name()
    }

    /// Where it stands now.
    #[must_use]
    pub fn state(&self) -> BreakerState {
        self.core.state(Moment::now())
    }

    /// Whether a call would be admitted now. A look: nothing is reserved, and
    /// an [`admit`](Self::admit) that follows may still be refused.
    ///
    /// # Errors
    ///
    /// The refusal that the call would get.
    pub fn would_admit(&self) -> Result<(), Refusal> {
        self.core.would_admit(Moment::now)
    }

    /// Admits a call or refuses it. What comes of the call is told to the
    /// [`Permit`].
    ///
    /// # Errors
    ///
    /// A refusal, which says when to come back.
    #[inline]
    pub fn admit(&self) -> Result<Permit, Refusal> {
        let ticket = self.core.admit(Moment::now)?;
        let started = if self.core.measures_time() {
            Moment::now()
        } else {
            Moment::NEVER
        };
        Ok(self.permit(ticket, started))
    }

    /// The permit for what was admitted with this ticket.
    #[inline]
    pub(super) fn permit(&self, ticket: Ticket, started: Moment) -> Permit {
        Permit {
            breaker: self.clone(),
            ticket: Some(ticket),
            started,
        }
    }

    /// All of its state at this instant.
    #[must_use]
    pub fn snapshot(&self) -> BreakerSnapshot {
        self.core.snapshot(Moment::now())
    }

    /// News of its changes of state.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use steadfast::{Breaker, BreakerConfig, BreakerState};
    ///
    /// let breaker = Breaker::new("inventory", BreakerConfig::default()).unwrap();
    /// let mut watch = breaker.watch();
    /// breaker.force_open("moving to another data centre");
    /// assert_eq!(watch.changed().await, BreakerState::ForcedOpen);
    /// # }
    /// ```
    #[must_use]
    pub fn watch(&self) -> BreakerWatch {
        BreakerWatch {
            breaker: self.clone(),
            generations: self.core.watch(),
        }
    }

    /// Wakes a task at each change of state.
    pub(crate) fn alarm(&self, waker: &Waker) -> Alarm {
        Alarm::new(self.clone(), waker)
    }

    /// A number that no other breaker has while a handle of this one lives.
    pub(crate) fn number(&self) -> usize {
        Arc::as_ptr(&self.core).addr()
    }

    /// Tells `observer` of its changes of state from now on, after the state in
    /// which it is, for as long as the breaker lives; once, however often the
    /// same one is given.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use steadfast::telemetry::{Event, Observer};
    /// use steadfast::{Breaker, BreakerConfig};
    ///
    /// struct Pager;
    ///
    /// impl Observer for Pager {
    ///     fn on_event(&self, event: &Event<'_>) {
    ///         if let Event::BreakerOpened { dependency, .. } = event {
    ///             println!("{dependency} is down");
    ///         }
    ///     }
    /// }
    ///
    /// let breaker = Breaker::new("pool", BreakerConfig::default())?;
    /// breaker.observe(Arc::new(Pager));
    /// # Ok::<(), steadfast::ConfigError>(())
    /// ```
    #[expect(
        clippy::needless_pass_by_value,
        reason = "`Arc::new(..)` is what it is given"
    )]
    pub fn observe(&self, observer: Arc<dyn Observer>) {
        self.observe_as(&observer);
    }

    pub(crate) fn observe_as(&self, observer: &Arc<dyn Observer>) {
        if let Some(seen) = self.core.observe(observer, None) {
            seen.tell();
        }
    }

    /// Refuses all calls from now on, until it is [reset](Self::reset): the
    /// switch to pull when somebody knows better. The reason stands in every
    /// refusal; reasons are kept for the life of the process, each once.
    ///
    /// Calls under way go on; what comes of them changes nothing.
    pub fn force_open(&self, reason: impl Into<Cow<'static, str>>) {
        self.core
            .force_open(Name::new(reason.into()), Moment::now());
    }

    /// Admits all calls from now on and opens at nothing, until it is
    /// [reset](Self::reset). Outcomes are counted still, for the
    /// [`snapshot`](Self::snapshot).
    pub fn disable(&self) {
        self.core.disable(Moment::now());
    }

    /// Closes it, whatever its state, with an empty window and nothing
    /// remembered of failed recoveries.
    pub fn reset(&self) {
        self.core.reset(Moment::now());
    }

    /// Uses other thresholds, open times, probes, recovery and limits from now
    /// on. The state stays as it is, and so does what has been counted.
    ///
    /// # Errors
    ///
    /// Settings that cannot work; another window, or a rule for which nothing
    /// has been counted so far: these take a new breaker. Nothing is changed
    /// then.
    ///
    /// # Examples
    ///
    /// ```
    /// use steadfast::{Breaker, BreakerConfig};
    ///
    /// let breaker = Breaker::new("inventory", BreakerConfig::failure_rate(0.5))?;
    /// breaker.reconfigure(&BreakerConfig::failure_rate(0.2).min_calls(50))?;
    /// # Ok::<(), steadfast::ConfigError>(())
    /// ```
    pub fn reconfigure(&self, config: &BreakerConfig) -> Result<(), ConfigError> {
        self.core.reconfigure(config)
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
    /// When it was given, where slow calls count; else never.
    started: Moment,
}

impl Permit {
    /// The dependency works.
    #[inline(always)]
    pub fn success(mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.breaker.core.succeed(ticket, self.started);
        }
    }

    /// The dependency is failing.
    #[inline(always)]
    pub fn failure(mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.breaker.core.fail(ticket, self.started);
        }
    }

    /// An answer that says nothing about the dependency's health. Unlike a
    /// drop it is an answer: ten in a row let a half-open breaker move on.
    pub fn neutral(self) {
        self.record(&Verdict::blocked());
    }

    /// What a verdict says of the dependency's health.
    pub fn record(mut self, verdict: &Verdict) {
        if let Some(ticket) = self.ticket.take() {
            let core = &self.breaker.core;
            core.record(ticket, verdict, self.started, Moment::now);
        }
    }
}

impl Drop for Permit {
    #[inline]
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.breaker.core.give_up(ticket);
        }
    }
}
