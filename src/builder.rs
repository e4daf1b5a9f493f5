//! One call on `ServiceBuilder`.

use tower::ServiceBuilder;
use tower::layer::util::Stack;

use crate::defer::DeferLayer;
use crate::fallback::FallbackLayer;
use crate::policy::Policy;
use crate::stack::{DeferringLayer, ResilienceLayer};

mod sealed {
    pub trait Sealed {}
    impl<L> Sealed for tower::ServiceBuilder<L> {}
}

/// Adds the stages to tower's `ServiceBuilder`.
///
/// Its methods do not share a name with the builder's own (`retry`, `timeout`,
/// `buffer`), which would win without a word.
///
/// # Examples
///
/// The fallback stands outermost:
///
/// ```
/// # use steadfast::{Policy, ServiceBuilderExt, fallback};
/// # use tower::{Service, ServiceBuilder};
/// # let inner = tower::service_fn(|_: ()| async { Ok::<_, std::io::Error>(1) });
/// # let policy = Policy::builder("inventory").build().unwrap();
/// let mut service = ServiceBuilder::new()
///     .fallback(fallback::value(0))
///     .resilience(policy)
///     .service(inner);
/// # let _ = service.call(());
/// ```
///
/// Inside the retry loop it does not compile; there it would answer each
/// attempt, and the loop would never see a failure:
///
/// ```compile_fail,E0599
/// # use steadfast::{ServiceBuilderExt, attempt::AttemptLayer, fallback, retry::RetryLayer};
/// # use tower::{Service, ServiceBuilder};
/// # let inner = tower::service_fn(|_: ()| async { Ok::<_, std::io::Error>(1) });
/// let mut service = ServiceBuilder::new()
///     .layer(RetryLayer::builder(3).build().unwrap())
///     .fallback(fallback::value(0))
///     .layer(AttemptLayer::new())
///     .service(inner);
/// # let _ = service.call(());
/// ```
pub trait ServiceBuilderExt<L>: sealed::Sealed {
    /// Deadline, retries, breaker and attempt timeout of `policy`, in that
    /// order.
    fn resilience<C, B>(
        self,
        policy: Policy<C, B>,
    ) -> ServiceBuilder<Stack<ResilienceLayer<C, B>, L>>;

    /// As [`resilience`](Self::resilience), and what the breaker refuses is put
    /// off and comes back, within the bounds of `defer`: for batches, queues and
    /// jobs. See [`defer`](crate::defer).
    ///
    /// The policy's deadline bounds parked calls too; its default of 30 s is
    /// meant for somebody who waits.
    fn deferring_resilience<C, B>(
        self,
        policy: Policy<C, B>,
        defer: DeferLayer,
    ) -> ServiceBuilder<Stack<DeferringLayer<C, B>, L>>;

    /// Answers from elsewhere when all inside has failed: a closure over the
    /// error, a value, a service, or a chain of them. See
    /// [`fallback`](crate::fallback).
    fn fallback<F>(self, entries: F) -> ServiceBuilder<Stack<FallbackLayer<F>, L>>;
}

impl<L> ServiceBuilderExt<L> for ServiceBuilder<L> {
    fn resilience<C, B>(
        self,
        policy: Policy<C, B>,
    ) -> ServiceBuilder<Stack<ResilienceLayer<C, B>, L>> {
        self.layer(ResilienceLayer::new(policy))
    }

    fn deferring_resilience<C, B>(
        self,
        policy: Policy<C, B>,
        defer: DeferLayer,
    ) -> ServiceBuilder<Stack<DeferringLayer<C, B>, L>> {
        self.layer(DeferringLayer::new(policy, defer))
    }

    fn fallback<F>(self, entries: F) -> ServiceBuilder<Stack<FallbackLayer<F>, L>> {
        self.layer(FallbackLayer::new(entries))
    }
}
