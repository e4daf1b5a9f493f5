//! All settings for one dependency, and the state that its callers share.

mod builder;
mod call;
mod changes;
mod describe;
#[cfg(feature = "serde")]
mod snapshot;

use std::fmt;
use std::future::Future;
use std::time::Duration;

use tower::BoxError;

use crate::attempt::AttemptStage;
use crate::breaker::handle::Breaker;
use crate::breaker::{BreakerSettings, BreakerStage, OneBreaker};
use crate::classify::default::DefaultClassify;
use crate::classify::traits::Classify;
use crate::config::ConfigError;
use crate::limit::lesser;
use crate::moment::Moment;
use crate::name::Name;
use crate::retry::{LoopShared, RetryFuture, start};
use crate::sharded::Sharded;
use crate::span::Span;

pub use builder::{BreakerSetting, IntoBreakers, PolicyBuilder};
pub use call::FnService;
pub use changes::PolicyChanges;
pub use describe::Description;
#[cfg(feature = "serde")]
pub use snapshot::{NamedBreaker, PolicySnapshot};

/// What to do about one dependency's failures.
///
/// A cheap handle: build it once, where the client is built, and clone it.
/// Clones share the breaker and the retry budget; two `build()`s do not. **A
/// policy built per request never learns**: its breaker has always just
/// closed, its budget is always full.
///
/// # Default
///
/// | setting | default | why |
/// |---|---|---|
/// | deadline | 30 s | longer than nearly all callers wait |
/// | attempt timeout | 10 s | a third of it, so that an attempt that hangs leaves room for another |
/// | max attempts | 3 | "has already failed three times" is where the SRE book lets a failure bubble up |
/// | backoff | full jitter, 100 ms doubling to 20 s | see [`Backoff`](crate::Backoff) |
/// | retry budget | 10 % of successes, cap and opening balance 10, trickle 0.1/s | see [`RetryBudget`](crate::RetryBudget) |
/// | breaker | see [`BreakerConfig`](crate::BreakerConfig) | |
/// | largest hint | 60 s | a server may ask for more than that, but not for this caller's patience |
/// | minimum useful time | 1 ms | the timer's own resolution |
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use steadfast::{Backoff, BreakerConfig, Policy, RetryBudget, Window};
///
/// let policy = Policy::builder("inventory")
///     .deadline(Duration::from_secs(2))
///     .attempt_timeout(Duration::from_millis(500))
///     .max_attempts(3)
///     .backoff(Backoff::full_jitter(Duration::from_millis(100), Duration::from_secs(20)))
///     .retry_budget(RetryBudget::ratio(0.1))
///     .breaker(
///         BreakerConfig::failure_rate(0.5)
///             .window(Window::time(Duration::from_secs(10)))
///             .min_calls(20),
///     )
///     .build()?;
/// println!("{}", policy.describe());
/// # Ok::<(), steadfast::ConfigError>(())
/// ```
pub struct Policy<C = DefaultClassify, B = OneBreaker> {
    shared: Sharded<LoopShared<PerAttempt<C, B>>>,
    total: Option<Duration>,
}

/// What happens once per attempt: a breaker around an attempt.
pub(crate) type PerAttempt<C, B> = BreakerStage<AttemptStage<C>, B>;

impl Policy {
    /// Settings for the dependency of this name. The name stands in every
    /// error and event; names made at run time are kept for the life of the
    /// process, each once, so keep their number bounded.
    pub fn builder(name: impl Into<std::borrow::Cow<'static, str>>) -> PolicyBuilder {
        PolicyBuilder::new(Name::new(name.into()).as_str())
    }
}

impl<C, B> Policy<C, B> {
    pub(crate) const fn shared(&self) -> &Sharded<LoopShared<PerAttempt<C, B>>> {
        &self.shared
    }

    pub(crate) const fn total(&self) -> Option<Duration> {
        self.total
    }

    /// The dependency's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.shared.dependency
    }

    /// The retry budget's balance, in tokens; for a concurrent budget, how
    /// many more retries could run now. `None` without a budget.
    #[must_use]
    pub fn budget_balance(&self) -> Option<f64> {
        let budget = self.shared.budget.as_ref();
        budget.map(|budget| budget.balance_at(Moment::now()))
    }
}

impl<C, B: BreakerSettings> Policy<C, B> {
    /// The numbers that follow from the settings, and warnings where settings
    /// do not agree.
    #[must_use]
    pub fn describe(&self) -> Description {
        describe::describe(self)
    }

    /// All that it knows now, for a health endpoint: settings, breakers, budget,
    /// calls in flight; feature `serde`.
    #[cfg(feature = "serde")]
    #[must_use]
    pub fn snapshot(&self) -> PolicySnapshot {
        snapshot::snapshot(self)
    }
}

impl<C> Policy<C> {
    /// The breaker, if there is one.
    #[must_use]
    pub fn breaker(&self) -> Option<&Breaker> {
        self.shared.stage.breakers.breaker.as_ref()
    }

    /// Changes retries and breaker while calls run, as an incident may ask for.
    /// State stays: what the breaker has counted, whether it is open, the
    /// budget's balance. Calls under way take the new settings from their next
    /// decision on.
    ///
    /// # Errors
    ///
    /// Settings that cannot work, among them a probe lease shorter than an
    /// attempt may take, and those of a breaker that take a new one
    /// ([`Breaker::reconfigure`]). Nothing is changed then.
    ///
    /// # Examples
    ///
    /// ```
    /// use steadfast::{Policy, PolicyChanges};
    ///
    /// let policy = Policy::builder("inventory").build()?;
    /// policy.reconfigure(PolicyChanges::new().max_attempts(1))?;
    /// assert_eq!(policy.describe().most_sends(), 1);
    /// # Ok::<(), steadfast::ConfigError>(())
    /// ```
    pub fn reconfigure(&self, changes: PolicyChanges) -> Result<(), ConfigError> {
        let longest = lesser(self.shared.stage.attempt.timeout(), self.total);
        changes.apply(&self.shared.settings, self.breaker(), longest)
    }

    /// Makes a call without a service: `attempt` is called once per attempt.
    /// Breaker and budget are the same as those of services with this policy.
    ///
    /// # Errors
    ///
    /// As a service of this policy.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let policy = steadfast::Policy::builder("inventory").build().unwrap();
    /// # async fn stock(_item: &str) -> std::io::Result<u32> { Ok(3) }
    /// let item = String::from("teapot");
    /// let stock = policy.call(|| stock(&item)).await;
    /// assert_eq!(stock.unwrap(), 3);
    /// # }
    /// ```
    pub fn call<F, Fut, T, E>(&self, attempt: F) -> PolicyCall<F, C>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: Into<BoxError>,
        C: Classify<(), T>,
    {
        start(&self.shared, (), Span::new(self.total), || {
            FnService::new(attempt)
        })
    }
}

/// Future of [`Policy::call`].
pub type PolicyCall<F, C> = RetryFuture<(), FnService<F>, PerAttempt<C, OneBreaker>>;

impl<C, B> Clone for Policy<C, B> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            total: self.total,
        }
    }
}

impl<C, B> fmt::Debug for Policy<C, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("dependency", &self.shared.dependency)
            .field("deadline", &self.total)
            .field("settings", &self.shared.settings.get())
            .finish_non_exhaustive()
    }
}
