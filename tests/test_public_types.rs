//! `Send`, `Sync` and `Unpin` of every public type, so that a change of an
//! inner part cannot take one away unnoticed. `!` pins that a type is not one.

use std::cell::Cell;
use std::error::Error as StdError;
use std::future::Ready;
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::rc::Rc;
use std::task::{Context, Poll};

use steadfast::attempt::{AttemptLayer, AttemptRunning, AttemptStage};
use steadfast::breaker::{BreakerLayer, BreakerRunning, BreakerStage, OneBreaker};
use steadfast::classify::{ClassifyFn, IdempotentIf};
use steadfast::deadline::{DeadlineLayer, DeadlineService};
use steadfast::defer::{DeferFuture, DeferLayer, DeferService};
use steadfast::fallback::{
    ByDefault, FallbackFuture, FallbackLayer, FallbackService, Or, OrFuture, Same, Secondary,
    SecondaryFuture, Value, With, WithFuture,
};
use steadfast::retry::{RetryFuture, RetryLayer, RetryLayerBuilder, RetryService};
use steadfast::stage::{Attempted, Limits, Single};
use steadfast::telemetry::{CallOutcome, Event, Observer};
use steadfast::{
    Again, Backoff, Breaker, BreakerConfig, BreakerSetting, BreakerSnapshot, BreakerState,
    BreakerWatch, CallCap, CallReport, Capture, ConfigError, Deadline, DefaultClassify, Deferring,
    DeferringLayer, Description, Error, ErrorKind, FnService, Health, ParkLimit, Permit, Policy,
    PolicyBuilder, PolicyCall, Reason, Refusal, RefusalReason, Resilience, ResilienceLayer,
    RetryBudget, Scope, Scoped, ServedBy, Stopped, Verdict, Window, Work,
};
use tower::{Service, ServiceExt};

/// Does not compile unless `$type` has (or, with `!`, lacks) the trait.
macro_rules! pin {
    ($type:ty: $($mark:tt)+) => { pin!(@each [$type] $($mark)+); };
    (@each [$type:ty]) => {};
    (@each [$type:ty] !$bound:ident $($rest:tt)*) => {
        const _: fn() = || {
            // Ambiguous, and so an error, as soon as the type has the trait.
            trait Lacks<Marker> {
                fn holds() {}
            }
            impl<T: ?Sized> Lacks<()> for T {}
            struct Has;
            impl<T: ?Sized + $bound> Lacks<Has> for T {}
            let _ = <$type as Lacks<_>>::holds;
        };
        pin!(@each [$type] $($rest)*);
    };
    (@each [$type:ty] $bound:ident $($rest:tt)*) => {
        const _: fn() = || {
            fn has<T: ?Sized + $bound>() {}
            has::<$type>();
        };
        pin!(@each [$type] $($rest)*);
    };
}

/// An inner service that is what `Kind` is.
#[derive(Clone)]
struct Inner<Kind>(PhantomData<Kind>);

impl<Kind> Service<()> for Inner<Kind> {
    type Response = ();
    type Error = std::io::Error;
    type Future = Ready<Result<(), std::io::Error>>;
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), std::io::Error>> {
        Poll::Ready(Ok(()))
    }
    fn call(&mut self, (): ()) -> Self::Future {
        std::future::ready(Ok(()))
    }
}

type Shared = Inner<()>;
type NotSync = Inner<Cell<()>>;
type NotSend = Inner<Rc<()>>;
type PlainFn = fn() -> Ready<Result<(), std::io::Error>>;
type LocalFn = fn() -> Ready<Result<Rc<()>, std::io::Error>>;
type Call<S> = <Resilience<S> as Service<()>>::Future;
type PerAttempt = BreakerStage<AttemptStage<DefaultClassify>>;
type Retry<S> = RetryService<S, PerAttempt>;

// Policy and settings.
pin!(Policy: Send Sync Unpin Clone);
pin!(PolicyBuilder: Send Sync Unpin);
pin!(ConfigError: Send Sync Unpin StdError);
pin!(Description: Send Sync Unpin);
pin!(Backoff: Send Sync Unpin Clone);
pin!(RetryBudget: Send Sync Unpin Clone);
pin!(BreakerConfig: Send Sync Unpin Clone);
pin!(BreakerSetting: Send Sync Unpin Clone);
pin!(Window: Send Sync Unpin Clone);

// Handles.
pin!(Breaker: Send Sync Unpin Clone);
pin!(BreakerSnapshot: Send Sync Unpin Clone);
pin!(BreakerWatch: Send Sync Unpin Clone);
pin!(Permit: Send Sync Unpin !Clone);
pin!(BreakerState: Send Sync Unpin Copy);

// Errors and reports.
pin!(Error: Send Sync Unpin StdError);
pin!(ErrorKind: Send Sync Unpin Copy);
pin!(Refusal: Send Sync Unpin Copy);
pin!(RefusalReason: Send Sync Unpin Copy);
pin!(Stopped: Send Sync Unpin Copy);
pin!(ParkLimit: Send Sync Unpin Copy);
pin!(CallReport: Send Sync Unpin Clone);
pin!(ServedBy: Send Sync Unpin Copy);

// Verdicts and classifiers.
pin!(Verdict: Send Sync Unpin Clone);
pin!(Again: Send Sync Unpin Copy);
pin!(Health: Send Sync Unpin Copy);
pin!(Work: Send Sync Unpin Copy);
pin!(Reason: Send Sync Unpin);
pin!(DefaultClassify: Send Sync Unpin Clone);
pin!(ClassifyFn<fn()>: Send Sync Unpin Clone);
pin!(IdempotentIf<DefaultClassify, fn()>: Send Sync Unpin Clone);

// What is ambient.
pin!(Scope: Send Sync Unpin);
pin!(CallCap: Send Sync Unpin Clone);
pin!(Deadline: Send Sync Unpin Copy);
pin!(Event<'static>: Send Sync Unpin Copy);
pin!(CallOutcome: Send Sync Unpin Copy);
pin!(Box<dyn Observer>: Send Sync Unpin);

// Layers.
pin!(ResilienceLayer: Send Sync Unpin Clone);
pin!(AttemptLayer: Send Sync Unpin Clone);
pin!(BreakerLayer: Send Sync Unpin Clone);
pin!(RetryLayer: Send Sync Unpin Clone);
pin!(RetryLayerBuilder: Send Sync Unpin Clone);
pin!(DeadlineLayer: Send Sync Unpin Clone);
pin!(DeferLayer: Send Sync Unpin Copy);
pin!(DeferringLayer: Send Sync Unpin Clone);
pin!(FallbackLayer<fn()>: Send Sync Unpin Clone);
pin!(ByDefault: Send Sync Unpin Copy);
pin!(OneBreaker: Send Sync Unpin);
pin!(AttemptStage<DefaultClassify>: Send Sync Unpin);
pin!(PerAttempt: Send Sync Unpin);
pin!(Single<Shared, AttemptStage<DefaultClassify>>: Send Sync Unpin);
pin!(Attempted<()>: Send Sync Unpin);
pin!(Limits: Send Sync Unpin Copy);

// Entries of a fallback.
pin!(Value<()>: Send Sync Unpin Clone);
pin!(With<fn()>: Send Sync Unpin Clone);
pin!(Same: Send Sync Unpin Copy);
pin!(Or<Value<()>, With<fn()>>: Send Sync Unpin Clone);
pin!(Secondary<Shared>: Send Sync Unpin Clone);
pin!(Secondary<NotSend>: !Send !Sync);

// Services are what the inner service is.
pin!(Resilience<Shared>: Send Sync Unpin Clone);
pin!(Resilience<NotSync>: Send !Sync Unpin);
pin!(Resilience<NotSend>: !Send !Sync Unpin);
pin!(Resilience<NotClone>: Send Sync Unpin !Clone);
pin!(Retry<Shared>: Send Sync Unpin Clone);
pin!(Retry<NotSync>: Send !Sync);
pin!(Retry<NotSend>: !Send !Sync);
pin!(DeadlineService<Retry<Shared>>: Send Sync Unpin Clone);
pin!(DeadlineService<Retry<NotSend>>: !Send !Sync);
pin!(DeferService<Retry<Shared>>: Send Sync Unpin Clone);
pin!(DeferService<Retry<NotSend>>: !Send !Sync);
pin!(Deferring<Shared>: Send Sync Unpin Clone);
pin!(Deferring<NotSend>: !Send !Sync Unpin);
pin!(FallbackService<Resilience<Shared>, fn()>: Send Sync Unpin Clone);
pin!(FallbackService<Resilience<NotSend>, fn()>: !Send !Sync);

// Futures are `Send` when the service is, and hold it in place.
pin!(Call<Shared>: Send !Unpin);
pin!(Call<NotSend>: !Send);
pin!(RetryFuture<(), Shared, PerAttempt>: Send !Unpin);
pin!(DeferFuture<(), Retry<Shared>>: Send !Unpin);
pin!(DeferFuture<(), Retry<NotSend>>: !Send);
pin!(AttemptRunning<(), Shared, ()>: Send Sync);
pin!(AttemptRunning<(), NotSend, ()>: !Send !Sync);
pin!(BreakerRunning<(), ()>: Send Sync);
pin!(PolicyCall<PlainFn, DefaultClassify>: Send !Unpin);
pin!(PolicyCall<LocalFn, DefaultClassify>: !Send);
pin!(FnService<fn()>: Send Sync Unpin);
pin!(Capture<Ready<()>>: Send Sync Unpin);
pin!(Scoped<Ready<()>>: Send Sync Unpin);
pin!(WithFuture<Ready<()>>: Send Sync Unpin);
pin!(OrFuture<Ready<()>, Ready<()>>: Send Sync Unpin);
pin!(SecondaryFuture<Shared, ()>: Send);
pin!(FallbackFuture<(), (), Call<Shared>, Value<()>, ByDefault>: Send);

#[cfg(feature = "metrics")]
pin!(steadfast::telemetry::Metrics: Send Sync Unpin Observer);
#[cfg(feature = "serde")]
pin!(steadfast::PolicySnapshot: Send Sync Unpin Clone);
#[cfg(feature = "serde")]
pin!(steadfast::NamedBreaker: Send Sync Unpin Clone);

#[cfg(feature = "test-util")]
mod test_util {
    use super::*;
    use steadfast::test_util::{
        ScriptedCall, ScriptedError, ScriptedFuture, ScriptedService, Step,
    };

    pin!(ScriptedService<(), ()>: Send Sync Unpin Clone);
    pin!(ScriptedService<Cell<()>, Cell<()>>: Send Sync Unpin Clone);
    pin!(ScriptedService<Rc<()>, ()>: !Send !Sync);
    pin!(Step<Rc<()>, Rc<()>, ()>: Send Sync Unpin Clone);
    pin!(ScriptedFuture<(), ScriptedError>: Send Sync Unpin);
    pin!(ScriptedFuture<Rc<()>, ScriptedError>: !Send !Sync Unpin);
    pin!(ScriptedCall<()>: Send Sync Unpin Clone);
    pin!(ScriptedError: Send Sync Unpin Clone StdError);
}

// A panic across them leaves them whole, observers or not.
pin!(Policy: UnwindSafe RefUnwindSafe);
pin!(Breaker: UnwindSafe RefUnwindSafe);

/// A service that cannot be cloned cannot be wrapped for use, but can be held.
struct NotClone;

#[tokio::test]
async fn the_types_pinned_above_are_those_that_work() {
    let policy = Policy::builder("pinned").build().unwrap();
    let layer: ResilienceLayer = ResilienceLayer::new(policy);
    let client: Resilience<Shared> = tower::Layer::layer(&layer, Inner(PhantomData));
    client.oneshot(()).await.unwrap();
}
