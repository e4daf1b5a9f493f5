//! From settings to a policy, or to what is wrong with them.

use std::sync::Arc;
use std::time::Duration;

use super::Policy;
use crate::attempt::AttemptStage;
use crate::breaker::config::BreakerConfig;
use crate::breaker::handle::Breaker;
use crate::breaker::rules::Rules;
use crate::breaker::settings::Settings;
use crate::breaker::{BreakerStage, OneBreaker};
use crate::classify::default::DefaultClassify;
use crate::config::ConfigError;
use crate::limit::lesser;
use crate::moment::Moment;
use crate::retry::backoff::Backoff;
use crate::retry::budget::RetryBudget;
use crate::retry::{LoopShared, RetrySettings};
use crate::sharded::Sharded;
use crate::telemetry::{Event, Observer, Observers};

/// Settings of a [`Policy`], with the defaults that stand there.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct PolicyBuilder<C = DefaultClassify, B = Option<BreakerSetting>> {
    name: &'static str,
    deadline: Option<Duration>,
    attempt_timeout: Option<Duration>,
    retry: RetrySettings,
    budget: Option<RetryBudget>,
    breakers: B,
    classify: Arc<C>,
    observers: Observers,
}

/// A breaker of the policy's own, from its settings, or one that it shares.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum BreakerSetting {
    /// The policy makes its own.
    Own(Box<BreakerConfig>),
    /// The policy shares this one, which keeps its own name.
    Shared(Breaker),
}

impl From<BreakerConfig> for BreakerSetting {
    fn from(config: BreakerConfig) -> Self {
        Self::Own(Box::new(config))
    }
}

impl From<Breaker> for BreakerSetting {
    fn from(breaker: Breaker) -> Self {
        Self::Shared(breaker)
    }
}

/// What a policy's breaker is made from. Sealed.
pub trait IntoBreakers: sealed::Resolve {}

impl<B: sealed::Resolve> IntoBreakers for B {}

mod sealed {
    use super::*;

    pub trait Resolve {
        type Breakers: Settings;

        fn into_breakers(self, name: &'static str) -> Result<Self::Breakers, ConfigError>;
    }

    impl Resolve for Option<BreakerSetting> {
        type Breakers = OneBreaker;

        fn into_breakers(self, name: &'static str) -> Result<OneBreaker, ConfigError> {
            let breaker = match self {
                None => None,
                Some(BreakerSetting::Shared(breaker)) => Some(breaker),
                Some(BreakerSetting::Own(config)) => Some(Breaker::new(name, *config)?),
            };
            Ok(OneBreaker { breaker })
        }
    }

    #[cfg(feature = "keyed")]
    impl<K, Q: ?Sized, F> Resolve for crate::breaker::KeyedBreakers<K, Q, F>
    where
        K: std::hash::Hash + Eq + Clone,
    {
        type Breakers = Self;

        fn into_breakers(self, _: &'static str) -> Result<Self, ConfigError> {
            Ok(self)
        }
    }
}

impl PolicyBuilder {
    pub(super) fn new(name: &'static str) -> Self {
        Self {
            name,
            deadline: Some(Duration::from_secs(30)),
            attempt_timeout: Some(Duration::from_secs(10)),
            retry: RetrySettings::new(3),
            budget: Some(RetryBudget::ratio(0.1)),
            breakers: Some(BreakerSetting::from(BreakerConfig::default())),
            classify: Arc::new(DefaultClassify::new()),
            observers: Observers::NONE,
        }
    }
}

impl<C> PolicyBuilder<C> {
    /// The breaker: settings for one of the policy's own, or a
    /// [`Breaker`] that is shared with other policies.
    pub fn breaker(mut self, breaker: impl Into<BreakerSetting>) -> Self {
        self.breakers = Some(breaker.into());
        self
    }

    /// Every call is sent, however long the dependency has been dead.
    pub fn no_breaker(mut self) -> Self {
        self.breakers = None;
        self
    }

    /// A breaker of its own for each key of `registry`, found by `key`, which
    /// borrows from the request.
    ///
    /// # Examples
    ///
    /// ```
    /// use steadfast::{BreakerConfig, Breakers, Policy};
    ///
    /// #[derive(Clone)]
    /// struct Request { host: String }
    ///
    /// let hosts: Breakers<String> = Breakers::new("hosts", BreakerConfig::default())?;
    /// let policy = Policy::builder("hosts")
    ///     .breakers(hosts.clone(), |request: &Request| request.host.as_str())
    ///     .build()?;
    /// # Ok::<(), steadfast::ConfigError>(())
    /// ```
    #[cfg(feature = "keyed")]
    pub fn breakers<K, Req, Q, F>(
        self,
        registry: crate::Breakers<K>,
        key: F,
    ) -> PolicyBuilder<C, crate::breaker::KeyedBreakers<K, Q, F>>
    where
        F: Fn(&Req) -> &Q,
        Q: ?Sized,
    {
        PolicyBuilder {
            name: self.name,
            deadline: self.deadline,
            attempt_timeout: self.attempt_timeout,
            retry: self.retry,
            budget: self.budget,
            breakers: crate::breaker::KeyedBreakers::new(registry, key),
            classify: self.classify,
            observers: self.observers,
        }
    }
}

impl<C, B> PolicyBuilder<C, B> {
    /// How long a call may take in total: attempts, waits and readiness. What
    /// the caller has left wins if it is less. Default: 30 s.
    pub const fn deadline(mut self, total: Duration) -> Self {
        self.deadline = Some(total);
        self
    }

    /// No total of its own; the caller's deadline still holds.
    pub const fn no_deadline(mut self) -> Self {
        self.deadline = None;
        self
    }

    /// How long one attempt may take, readiness included, until the head of
    /// the answer. Default: 10 s.
    pub const fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.attempt_timeout = Some(timeout);
        self
    }

    /// Attempts are bounded by the deadline only.
    ///
    /// Without a deadline of the policy's own as well there is nothing to hold
    /// the time of an attempt against: one that its caller's deadline cut says
    /// nothing about the dependency, and one that hangs opens no breaker.
    pub const fn no_attempt_timeout(mut self) -> Self {
        self.attempt_timeout = None;
        self
    }

    /// How many attempts a call may make, the first included; 1 switches
    /// retries off, and such a stack leaves them to one further out. Default:
    /// 3.
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.retry.max_attempts = attempts;
        self
    }

    /// How long to wait between attempts. Default: full jitter from 100 ms to
    /// 20 s.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.retry.backoff = backoff;
        self
    }

    /// What retries may cost in total. Default: 10 % of the successes.
    pub fn retry_budget(mut self, budget: RetryBudget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Retries are bounded per call only: nothing keeps a fleet from
    /// multiplying its traffic during an outage.
    pub fn no_retry_budget(mut self) -> Self {
        self.budget = None;
        self
    }

    /// The longest wait asked for by the server that is waited for; a longer
    /// one ends the call at once and is told in
    /// [`Error::retry_after`](crate::Error::retry_after). Default: 60 s.
    pub const fn largest_hint(mut self, longest: Duration) -> Self {
        self.retry.largest_hint = longest;
        self
    }

    /// What a further attempt must have left before the deadline, or it is not
    /// waited for. Set it to the fastest answer that you have ever seen.
    /// Default: 1 ms.
    pub const fn min_useful_time(mut self, least: Duration) -> Self {
        self.retry.min_useful_time = least;
        self
    }

    /// Sets who judges results and says what may be sent twice. Default:
    /// [`DefaultClassify`].
    pub fn classify<D>(self, classify: D) -> PolicyBuilder<D, B> {
        PolicyBuilder {
            name: self.name,
            deadline: self.deadline,
            attempt_timeout: self.attempt_timeout,
            retry: self.retry,
            budget: self.budget,
            breakers: self.breakers,
            classify: Arc::new(classify),
            observers: self.observers,
        }
    }

    /// Tells `observer` of all calls, of the breaker or breakers, and of what
    /// fallbacks in the same task do with calls that failed. May be given
    /// several times, for several observers. Default: none.
    ///
    /// See [`Observer`] for an example.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "`Arc::new(..)` is what it is given"
    )]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        if let Some(more) = self.observers.and(&observer) {
            self.observers = more;
        }
        self
    }

    /// Checks the settings and makes the policy.
    ///
    /// # Errors
    ///
    /// A setting that cannot work, by field and value. Settings that work but
    /// do not agree are warnings of [`Policy::describe`].
    pub fn build(self) -> Result<Policy<C, B::Breakers>, ConfigError>
    where
        B: IntoBreakers,
    {
        above_zero("deadline", self.deadline)?;
        above_zero("attempt_timeout", self.attempt_timeout)?;
        self.retry.check()?;
        let budget = self.budget.as_ref().map(RetryBudget::build).transpose()?;
        let breakers = self.breakers.into_breakers(self.name)?;
        let longest = lesser(self.attempt_timeout, self.deadline);
        if let Some(rules) = breakers.rules() {
            check_lease(&rules, longest)?;
        }
        self.observers.tell(|| Event::PolicyBuilt {
            dependency: self.name,
            budget_balance: budget
                .as_ref()
                .map(|budget| budget.balance_at(Moment::now())),
        });
        for observer in self.observers.iter() {
            breakers.observe(observer);
        }
        let stage = BreakerStage {
            attempt: AttemptStage::new(self.classify, self.attempt_timeout),
            breakers,
            abandoned_after: longest.map(|longest| longest / 2),
        };
        Ok(Policy {
            total: self.deadline,
            shared: Sharded::new(LoopShared::new(
                self.name,
                self.retry,
                budget,
                self.observers,
                stage,
            )),
        })
    }
}

fn above_zero(field: &'static str, value: Option<Duration>) -> Result<(), ConfigError> {
    match value {
        Some(value) if value.is_zero() => {
            let problem = "must be above 0; leave it out to have none";
            Err(ConfigError::new(field, format!("{value:?}"), problem))
        }
        _ => Ok(()),
    }
}

/// A probe that may still answer must not be given up for lost: its lease is no
/// less than the longest that an attempt may take.
pub(super) fn check_lease(rules: &Rules, longest: Option<Duration>) -> Result<(), ConfigError> {
    let lease = rules.recovery.probe_lease;
    if longest.is_some_and(|longest| longest > lease) {
        let value = format!("{lease:?}");
        let problem = "is shorter than an attempt may take";
        return Err(ConfigError::new("breaker.probe_lease", value, problem));
    }
    Ok(())
}
