//! The layer alone, for stacks that are not built from a policy.

use std::time::Duration;

use tower::Layer;

use super::handle::Breaker;
use super::stage::{BreakerStage, OneBreaker};
use crate::attempt::AttemptStage;
use crate::stage::{Single, SingleAttempt};

/// Puts a [`Breaker`] before each single attempt.
///
/// Wraps only an `Attempt`. Around a raw service, or around a retry loop, it
/// would judge the wrong thing: a whole loop of four attempts counts as one
/// failure, and the breaker learns too late.
///
/// ```
/// # use steadfast::{attempt::AttemptLayer, breaker::BreakerLayer, retry::RetryLayer, Breaker, BreakerConfig};
/// # use tower::ServiceBuilder;
/// # let inner = tower::service_fn(|_: ()| async { Ok::<_, std::io::Error>(()) });
/// let breaker = Breaker::new("inventory", BreakerConfig::default()).unwrap();
/// let service = ServiceBuilder::new()
///     .layer(RetryLayer::builder(3).build().unwrap())
///     .layer(BreakerLayer::new(breaker))
///     .layer(AttemptLayer::new())
///     .service(inner);
/// ```
///
/// Around a retry loop:
///
/// ```compile_fail,E0599
/// # use steadfast::{attempt::AttemptLayer, breaker::BreakerLayer, retry::RetryLayer, Breaker, BreakerConfig};
/// # use tower::ServiceBuilder;
/// # let inner = tower::service_fn(|_: ()| async { Ok::<_, std::io::Error>(()) });
/// let breaker = Breaker::new("inventory", BreakerConfig::default()).unwrap();
/// let service = ServiceBuilder::new()
///     .layer(BreakerLayer::new(breaker))
///     .layer(RetryLayer::builder(3).build().unwrap())
///     .layer(AttemptLayer::new())
///     .service(inner);
/// ```
///
/// Around a raw service:
///
/// ```compile_fail,E0277
/// # use steadfast::{attempt::AttemptLayer, breaker::BreakerLayer, retry::RetryLayer, Breaker, BreakerConfig};
/// # use tower::ServiceBuilder;
/// # let inner = tower::service_fn(|_: ()| async { Ok::<_, std::io::Error>(()) });
/// let breaker = Breaker::new("inventory", BreakerConfig::default()).unwrap();
/// let service = ServiceBuilder::new()
///     .layer(RetryLayer::builder(3).build().unwrap())
///     .layer(BreakerLayer::new(breaker))
///     .service(inner);
/// ```
#[derive(Clone, Debug)]
pub struct BreakerLayer {
    breaker: Breaker,
}

impl BreakerLayer {
    /// Lets `breaker` judge.
    #[must_use]
    pub const fn new(breaker: Breaker) -> Self {
        Self { breaker }
    }
}

/// An `Attempt` that no breaker stands before yet. Sealed.
#[diagnostic::on_unimplemented(
    message = "a `Breaker` cannot stand around `{Self}`, which is not a single attempt",
    label = "a `Breaker` wraps only an `Attempt`",
    note = "the order is Fallback, Deadline, Defer, Retry, Breaker, Attempt, your service"
)]
pub trait BareAttempt: SingleAttempt {
    #[doc(hidden)]
    fn timeout(&self) -> Option<Duration>;
}

impl<S, C> BareAttempt for Single<S, AttemptStage<C>> {
    fn timeout(&self) -> Option<Duration> {
        self.stage.timeout()
    }
}

impl<A: BareAttempt> Layer<A> for BreakerLayer {
    type Service = Single<A::Service, BreakerStage<A::Stage>>;

    fn layer(&self, inner: A) -> Self::Service {
        let timeout = inner.timeout();
        let (service, attempt) = inner.split();
        Single {
            service,
            stage: BreakerStage {
                attempt,
                breakers: OneBreaker {
                    breaker: Some(self.breaker.clone()),
                },
                abandoned_after: timeout.map(|timeout| timeout / 2),
            },
        }
    }
}
