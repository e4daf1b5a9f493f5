//! What one call of a scripted service does.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::error::ScriptedError;

/// What a [`ScriptedService`](super::ScriptedService) does with one call, or
/// with [several](Self::times).
///
/// # Default
///
/// Each step is ready at once and ends at once, and serves one call.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use steadfast::test_util::{ScriptedService, Step};
///
/// let inventory: ScriptedService<&str, u32> = ScriptedService::new()
///     .then(Step::fail("connection reset").times(2))
///     .then(Step::hang())
///     .then(Step::ok(12).after(Duration::from_millis(80)))
///     .then(Step::respond(|item: &&str| Ok(item.len() as u32)));
/// # let _ = inventory;
/// ```
#[must_use = "a step does nothing until a script has it"]
pub struct Step<Req, Res, E> {
    pub(super) readiness: Readiness<E>,
    pub(super) delay: Duration,
    pub(super) end: End<Req, Res, E>,
    pub(super) times: usize,
}

pub(super) enum Readiness<E> {
    Now,
    After(Duration),
    Never,
    Fails(Arc<dyn Fn() -> E + Send + Sync>),
}

pub(super) enum End<Req, Res, E> {
    Respond(Arc<Respond<Req, Res, E>>),
    Hang,
    Panic(Cow<'static, str>),
}

type Respond<Req, Res, E> = dyn Fn(&Req) -> Result<Res, E> + Send + Sync;

impl<Req, Res> Step<Req, Res, ScriptedError> {
    /// Fails with a [`ScriptedError`] of this message.
    pub fn fail(message: impl Into<Cow<'static, str>>) -> Self {
        Self::err(ScriptedError::new(message))
    }
}

impl<Req, Res, E> Step<Req, Res, E> {
    /// Answers with a clone of `answer`.
    pub fn ok(answer: Res) -> Self
    where
        Res: Clone + Send + Sync + 'static,
    {
        Self::respond(move |_| Ok(answer.clone()))
    }

    /// Fails with a clone of `error`.
    pub fn err(error: E) -> Self
    where
        E: Clone + Send + Sync + 'static,
    {
        Self::respond(move |_| Err(error.clone()))
    }

    /// Ends with what `respond` makes of the request: for answers that depend
    /// on it, and for those that cannot be cloned, such as a client's own
    /// errors. It is asked when the call arrives.
    pub fn respond(respond: impl Fn(&Req) -> Result<Res, E> + Send + Sync + 'static) -> Self {
        Self::ending(End::Respond(Arc::new(respond)))
    }

    /// Never ends. In a year of tokio's time it panics: under a paused clock
    /// that is as soon as nothing else is left to wait for, so that a test over
    /// code that waits without a limit fails and does not hang.
    pub const fn hang() -> Self {
        Self::ending(End::Hang)
    }

    /// Panics with this message where the call's future is polled.
    pub fn panic(message: impl Into<Cow<'static, str>>) -> Self {
        Self::ending(End::Panic(message.into()))
    }

    /// Is never ready, so that the call never arrives; a year as in
    /// [`hang`](Self::hang).
    pub fn never_ready() -> Self {
        Self {
            readiness: Readiness::Never,
            ..Self::ending(End::Hang)
        }
    }

    /// Fails in `poll_ready` with a clone of `error`, so that the call never
    /// arrives.
    pub fn not_ready(error: E) -> Self
    where
        E: Clone + Send + Sync + 'static,
    {
        Self {
            readiness: Readiness::Fails(Arc::new(move || error.clone())),
            ..Self::ending(End::Hang)
        }
    }

    /// The answer, the error or the panic comes this long after the call.
    pub fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Is ready this long after it was first asked. Changes nothing for a step
    /// that is [never](Self::never_ready) or [not](Self::not_ready) ready.
    pub fn ready_after(mut self, wait: Duration) -> Self {
        if matches!(self.readiness, Readiness::Now | Readiness::After(_)) {
            self.readiness = Readiness::After(wait);
        }
        self
    }

    /// Serves this many calls; 0 leaves it out of the script.
    pub fn times(self, calls: usize) -> Self {
        Self {
            times: calls,
            ..self
        }
    }

    const fn ending(end: End<Req, Res, E>) -> Self {
        Self {
            readiness: Readiness::Now,
            delay: Duration::ZERO,
            end,
            times: 1,
        }
    }
}

impl<Req, Res, E> Clone for Step<Req, Res, E> {
    fn clone(&self) -> Self {
        Self {
            readiness: match &self.readiness {
                Readiness::Now => Readiness::Now,
                Readiness::After(wait) => Readiness::After(*wait),
                Readiness::Never => Readiness::Never,
                Readiness::Fails(error) => Readiness::Fails(Arc::clone(error)),
            },
            delay: self.delay,
            end: match &self.end {
                End::Respond(respond) => End::Respond(Arc::clone(respond)),
                End::Hang => End::Hang,
                End::Panic(message) => End::Panic(message.clone()),
            },
            times: self.times,
        }
    }
}

impl<Req, Res, E> fmt::Debug for Step<Req, Res, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ready, ready_after) = match &self.readiness {
            Readiness::Now => ("at once", None),
            Readiness::After(wait) => ("late", Some(wait)),
            Readiness::Never => ("never", None),
            Readiness::Fails(_) => ("fails", None),
        };
        let end = match &self.end {
            End::Respond(_) => "responds",
            End::Hang => "hangs",
            End::Panic(_) => "panics",
        };
        f.debug_struct("Step")
            .field("ready", &ready)
            .field("ready_after", &ready_after)
            .field("end", &end)
            .field("after", &self.delay)
            .field("times", &self.times)
            .finish()
    }
}
