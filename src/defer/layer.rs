//! The layer and its settings.

use std::time::Duration;

use super::shared::Settings;

/// Puts refused calls off, instead of failing them. What that means stands in
/// the [module's page](super).
///
/// Stands between [`DeadlineLayer`](crate::deadline::DeadlineLayer) and
/// [`RetryLayer`](crate::retry::RetryLayer):
///
/// ```
/// # use std::time::Duration;
/// # use steadfast::{Breaker, BreakerConfig, attempt::AttemptLayer, breaker::BreakerLayer};
/// # use steadfast::{deadline::DeadlineLayer, defer::DeferLayer, retry::RetryLayer};
/// # use tower::{Service, ServiceBuilder};
/// # let breaker = Breaker::new("inventory", BreakerConfig::default()).unwrap();
/// # let inner = tower::service_fn(|_: ()| async { Ok::<_, std::io::Error>(()) });
/// let mut service = ServiceBuilder::new()
///     .layer(DeadlineLayer::new(Duration::from_secs(3600)))
///     .layer(DeferLayer::new())
///     .layer(RetryLayer::builder(3).build().unwrap())
///     .layer(BreakerLayer::new(breaker))
///     .layer(AttemptLayer::new())
///     .service(inner);
/// # let _ = service.call(());
/// ```
///
/// Outside of the deadline a call would be parked past what its caller waits
/// for:
///
/// ```compile_fail,E0599
/// # use std::time::Duration;
/// # use steadfast::{Breaker, BreakerConfig, attempt::AttemptLayer, breaker::BreakerLayer};
/// # use steadfast::{deadline::DeadlineLayer, defer::DeferLayer, retry::RetryLayer};
/// # use tower::{Service, ServiceBuilder};
/// # let breaker = Breaker::new("inventory", BreakerConfig::default()).unwrap();
/// # let inner = tower::service_fn(|_: ()| async { Ok::<_, std::io::Error>(()) });
/// let mut service = ServiceBuilder::new()
///     .layer(DeferLayer::new())
///     .layer(DeadlineLayer::new(Duration::from_secs(3600)))
///     .layer(RetryLayer::builder(3).build().unwrap())
///     .layer(BreakerLayer::new(breaker))
///     .layer(AttemptLayer::new())
///     .service(inner);
/// # let _ = service.call(());
/// ```
///
/// Inside the loop it would park single attempts, while backoff and budget
/// wait for them:
///
/// ```compile_fail,E0599
/// # use std::time::Duration;
/// # use steadfast::{Breaker, BreakerConfig, attempt::AttemptLayer, breaker::BreakerLayer};
/// # use steadfast::{deadline::DeadlineLayer, defer::DeferLayer, retry::RetryLayer};
/// # use tower::{Service, ServiceBuilder};
/// # let breaker = Breaker::new("inventory", BreakerConfig::default()).unwrap();
/// # let inner = tower::service_fn(|_: ()| async { Ok::<_, std::io::Error>(()) });
/// let mut service = ServiceBuilder::new()
///     .layer(DeadlineLayer::new(Duration::from_secs(3600)))
///     .layer(RetryLayer::builder(3).build().unwrap())
///     .layer(DeferLayer::new())
///     .layer(BreakerLayer::new(breaker))
///     .layer(AttemptLayer::new())
///     .service(inner);
/// # let _ = service.call(());
/// ```
///
/// And over a loop without a breaker there is nothing to put off:
///
/// ```compile_fail,E0599
/// # use std::time::Duration;
/// # use steadfast::{attempt::AttemptLayer, deadline::DeadlineLayer, defer::DeferLayer};
/// # use steadfast::retry::RetryLayer;
/// # use tower::{Service, ServiceBuilder};
/// # let inner = tower::service_fn(|_: ()| async { Ok::<_, std::io::Error>(()) });
/// let mut service = ServiceBuilder::new()
///     .layer(DeadlineLayer::new(Duration::from_secs(3600)))
///     .layer(DeferLayer::new())
///     .layer(RetryLayer::builder(3).build().unwrap())
///     .layer(AttemptLayer::new())
///     .service(inner);
/// # let _ = service.call(());
/// ```
///
/// # Default
///
/// | bound | default | why |
/// |---|---|---|
/// | [calls](Self::calls) | 10,000 | each holds a copy of its request |
/// | [longest](Self::longest) | 15 min | longer than most outages; a call that has waited so long should be somebody's decision |
///
/// A policy's deadline bounds parked calls too, and its default of 30 s is
/// meant for somebody who waits: give batch work a longer one, or none.
#[derive(Clone, Copy, Debug)]
#[must_use = "a layer does nothing until it wraps a service"]
pub struct DeferLayer {
    settings: Settings,
}

impl DeferLayer {
    /// The default bounds. Each service that a layer makes parks calls of its
    /// own; clones of the service share them.
    pub const fn new() -> Self {
        Self {
            settings: Settings {
                calls: 10_000,
                longest: Duration::from_secs(15 * 60),
                seed: None,
            },
        }
    }

    /// How many calls may be put off at once, those included that have come
    /// back and are not over yet. Those beyond are refused at once; with 0 all
    /// are.
    pub const fn calls(mut self, most: usize) -> Self {
        self.settings.calls = most;
        self
    }

    /// How long a call may be put off in all, from its first refusal. One whose
    /// breaker checks again only after that is refused at once.
    pub const fn longest(mut self, longest: Duration) -> Self {
        self.settings.longest = longest;
        self
    }

    /// Makes the jitter on the returns repeatable, for tests: each service that
    /// the layer makes draws the same sequence. Not for production: a fleet that
    /// starts from one seed comes back in step.
    ///
    /// # Default
    ///
    /// The thread's own generator, seeded by the operating system.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = Some(seed);
        self
    }

    pub(super) const fn settings(&self) -> Settings {
        self.settings
    }
}

impl Default for DeferLayer {
    fn default() -> Self {
        Self::new()
    }
}
