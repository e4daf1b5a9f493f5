//! The layer alone, for stacks that are not built from a policy.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use tower::Layer;

use super::backoff::Backoff;
use super::budget::RetryBudget;
use super::service::RetryService;
use super::shared::{LoopShared, RetrySettings};
use crate::config::ConfigError;
use crate::name::Name;
use crate::sharded::Sharded;
use crate::stage::SingleAttempt;
use crate::telemetry::{Observer, Observers};

/// Tries again what may be tried again.
///
/// Wraps a single attempt, with or without a breaker before it; never a raw
/// service:
///
/// ```
/// # use steadfast::{attempt::AttemptLayer, retry::RetryLayer};
/// # use tower::ServiceBuilder;
/// # let inner = tower::service_fn(|_: ()| async { Ok::<_, std::io::Error>(()) });
/// let service = ServiceBuilder::new()
///     .layer(RetryLayer::builder(3).build().unwrap())
///     .layer(AttemptLayer::new())
///     .service(inner);
/// ```
///
/// ```compile_fail,E0277
/// # use steadfast::{attempt::AttemptLayer, retry::RetryLayer};
/// # use tower::ServiceBuilder;
/// # let inner = tower::service_fn(|_: ()| async { Ok::<_, std::io::Error>(()) });
/// let service = ServiceBuilder::new()
///     .layer(RetryLayer::builder(3).build().unwrap())
///     .service(inner);
/// ```
///
/// Each service that a layer makes has a budget of its own; clones of the
/// service share it.
#[derive(Clone, Debug)]
pub struct RetryLayer {
    config: Arc<RetryLayerBuilder>,
}

impl RetryLayer {
    /// Settings of a loop of at most `max_attempts` attempts, the first
    /// included. Backoff: full jitter from 100 ms to 20 s; no budget.
    pub const fn builder(max_attempts: u32) -> RetryLayerBuilder {
        RetryLayerBuilder {
            name: "unnamed",
            settings: RetrySettings::new(max_attempts),
            budget: None,
            observers: Observers::NONE,
        }
    }
}

impl<A: SingleAttempt> Layer<A> for RetryLayer {
    type Service = RetryService<A::Service, A::Stage>;

    fn layer(&self, inner: A) -> Self::Service {
        let (service, stage) = inner.split();
        let shared = self.config.shared(stage);
        let Ok(shared) = shared else {
            unreachable!("checked when the layer was built");
        };
        RetryService::new(service, Sharded::new(shared))
    }
}

/// Settings of a [`RetryLayer`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct RetryLayerBuilder {
    name: &'static str,
    settings: RetrySettings,
    budget: Option<RetryBudget>,
    observers: Observers,
}

impl RetryLayerBuilder {
    /// The dependency's name, in errors and events. Default: `unnamed`.
    pub fn dependency(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.name = Name::new(name.into()).as_str();
        self
    }

    /// How long to wait between attempts.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.settings.backoff = backoff;
        self
    }

    /// What retries may cost in total. Default: no budget.
    pub fn retry_budget(mut self, budget: RetryBudget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// The longest wait asked for by the server that is waited for. Default:
    /// 60 s.
    pub const fn largest_hint(mut self, longest: Duration) -> Self {
        self.settings.largest_hint = longest;
        self
    }

    /// What a further attempt must have left before the deadline. Default:
    /// 1 ms.
    pub const fn min_useful_time(mut self, least: Duration) -> Self {
        self.settings.min_useful_time = least;
        self
    }

    /// Tells `observer` of all calls. May be given several times. A breaker
    /// below has [its own](crate::Breaker::observe).
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

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// Settings that cannot work, by field and value.
    pub fn build(self) -> Result<RetryLayer, ConfigError> {
        self.shared(())?;
        Ok(RetryLayer {
            config: Arc::new(self),
        })
    }

    fn shared<T>(&self, stage: T) -> Result<LoopShared<T>, ConfigError> {
        self.settings.check()?;
        let budget = self.budget.as_ref().map(RetryBudget::build).transpose()?;
        let (settings, observers) = (self.settings.clone(), self.observers.clone());
        Ok(LoopShared::new(
            self.name, settings, budget, observers, stage,
        ))
    }
}
