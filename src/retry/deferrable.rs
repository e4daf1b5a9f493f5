//! The loop as a stage above it sees it that puts refused calls off.

use super::service::RetryService;
use crate::breaker::handle::Breaker;
use crate::breaker::pick::Pick;
use crate::breaker::{BreakerStage, PickBreaker};
use crate::deadline::{RetryLoop, Within};
use crate::stage::{Drive, InnerService, Stage};
use crate::telemetry::Observers;

/// A stage whose refused calls can be put off: a retry loop over a breaker,
/// since nothing else refuses.
#[diagnostic::on_unimplemented(
    message = "`Defer` puts off what a breaker below a retry loop refuses, and `{Self}` is no such loop",
    label = "expected the result of a `RetryLayer` over a `BreakerLayer`",
    note = "the order is Fallback, Deadline, Defer, Retry, Breaker, Attempt, your service"
)]
pub trait DeferrableLoop: RetryLoop {}

impl<S, A, B> DeferrableLoop for RetryService<S, BreakerStage<A, B>> {}

/// What a [`DeferrableLoop`] knows of its requests.
pub(crate) trait Deferrable<Req>: Within<Req> + Clone {
    /// A copy that can be sent later, as the policy's classifier makes it.
    fn copy(&self, request: &Req) -> Option<Req>;

    /// Whether such a copy can still be sent.
    fn is_intact(&self, copy: &Req) -> bool;

    /// The dependency's name.
    fn dependency(&self) -> &'static str;

    /// Who hears of its calls.
    fn observers(&self) -> &Observers;

    /// The breaker that judges a request.
    fn breaker(&self, request: &Req) -> Option<Breaker>;
}

impl<Req, S, A, B> Deferrable<Req> for RetryService<S, BreakerStage<A, B>>
where
    S: InnerService,
    B: PickBreaker<Req>,
    BreakerStage<A, B>: Stage<Req, S>,
{
    fn copy(&self, request: &Req) -> Option<Req> {
        self.shared.stage.copy(request)
    }

    fn is_intact(&self, copy: &Req) -> bool {
        self.shared.stage.is_intact(copy)
    }

    fn dependency(&self) -> &'static str {
        self.shared.dependency
    }

    fn observers(&self) -> &Observers {
        &self.shared.observers
    }

    fn breaker(&self, request: &Req) -> Option<Breaker> {
        let breakers: &B = &self.shared.stage.breakers;
        let picked = Pick::pick(breakers, request);
        Pick::<Req>::breaker(breakers, &picked).cloned()
    }
}
