//! The layer alone, for stacks that are not built from a policy.

use std::sync::Arc;
use std::time::Duration;

use tower::Layer;

use super::stage::AttemptStage;
use crate::classify::default::DefaultClassify;
use crate::stage::{InnerService, Single};

/// Makes single attempts of a service: the innermost stage.
///
/// Wraps any service that is `Clone` and whose errors turn into `BoxError`;
/// never a stage of ours:
///
/// ```
/// # use steadfast::{attempt::AttemptLayer, breaker::BreakerLayer, retry::RetryLayer, Breaker, BreakerConfig};
/// # use tower::ServiceBuilder;
/// # let breaker = Breaker::new("inventory", BreakerConfig::default()).unwrap();
/// # let inner = tower::service_fn(|_: ()| async { Ok::<_, std::io::Error>(()) });
/// let service = ServiceBuilder::new()
///     .layer(RetryLayer::builder(3).build().unwrap())
///     .layer(BreakerLayer::new(breaker))
///     .layer(AttemptLayer::new())
///     .service(inner);
/// ```
///
/// ```compile_fail,E0599
/// # use steadfast::{attempt::AttemptLayer, breaker::BreakerLayer, retry::RetryLayer, Breaker, BreakerConfig};
/// # use tower::ServiceBuilder;
/// # let breaker = Breaker::new("inventory", BreakerConfig::default()).unwrap();
/// # let inner = tower::service_fn(|_: ()| async { Ok::<_, std::io::Error>(()) });
/// let service = ServiceBuilder::new()
///     .layer(RetryLayer::builder(3).build().unwrap())
///     .layer(AttemptLayer::new())
///     .layer(BreakerLayer::new(breaker))
///     .layer(AttemptLayer::new())
///     .service(inner);
/// ```
#[derive(Debug)]
pub struct AttemptLayer<C = DefaultClassify> {
    classify: Arc<C>,
    timeout: Option<Duration>,
}

impl AttemptLayer {
    /// Attempts without a timeout of their own, judged by [`DefaultClassify`].
    #[must_use]
    pub fn new() -> Self {
        Self {
            classify: Arc::new(DefaultClassify::new()),
            timeout: None,
        }
    }
}

impl Default for AttemptLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<C> AttemptLayer<C> {
    /// Bounds each attempt, from its start to the head of the answer. With zero
    /// only an answer that is there at once is in time.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets who judges the results.
    #[must_use]
    pub fn classify<D>(self, classify: D) -> AttemptLayer<D> {
        AttemptLayer {
            classify: Arc::new(classify),
            timeout: self.timeout,
        }
    }
}

impl<C> Clone for AttemptLayer<C> {
    fn clone(&self) -> Self {
        Self {
            classify: Arc::clone(&self.classify),
            timeout: self.timeout,
        }
    }
}

impl<C, S: InnerService> Layer<S> for AttemptLayer<C> {
    type Service = Single<S, AttemptStage<C>>;

    fn layer(&self, service: S) -> Self::Service {
        Single {
            service,
            stage: AttemptStage::new(Arc::clone(&self.classify), self.timeout),
        }
    }
}
