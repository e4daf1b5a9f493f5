//! One scripted call under way.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::script::Tally;
use super::step::{End, Step};
use crate::deadline::instant_after;

/// As good as for ever, except under a paused clock, where it passes as soon as
/// nothing else is waited for and turns a test that would hang into one that
/// fails.
pub(super) const A_YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// Future of [`ScriptedService`](super::ScriptedService).
#[must_use = "futures do nothing unless awaited"]
pub struct ScriptedFuture<Res, E> {
    /// When it ends; at once if there is none.
    at: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
    end: Option<Outcome<Res, E>>,
    tally: Arc<Tally>,
}

// Nothing is pinned within it.
impl<Res, E> Unpin for ScriptedFuture<Res, E> {}

enum Outcome<Res, E> {
    Result(Result<Res, E>),
    Hang,
    Panic(Cow<'static, str>),
}

impl<Req, Res, E> Step<Req, Res, E> {
    /// Begins to do what it says with a call that arrives now.
    pub(super) fn start(self, request: &Req, tally: &Arc<Tally>) -> ScriptedFuture<Res, E> {
        let delay = match self.end {
            End::Hang => A_YEAR,
            _ => self.delay,
        };
        ScriptedFuture {
            at: (!delay.is_zero()).then(|| instant_after(Instant::now(), delay)),
            sleep: None,
            end: Some(match self.end {
                End::Respond(respond) => Outcome::Result(respond(request)),
                End::Hang => Outcome::Hang,
                End::Panic(message) => Outcome::Panic(message),
            }),
            tally: Arc::clone(tally),
        }
    }
}

impl<Res, E> Future for ScriptedFuture<Res, E> {
    type Output = Result<Res, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Res, E>> {
        if let Some(at) = self.at {
            let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(at)));
            ready!(sleep.as_mut().poll(cx));
        }
        let end = self.end.take();
        if end.is_some() {
            self.tally.end();
        }
        match end {
            Some(Outcome::Result(result)) => Poll::Ready(result),
            Some(Outcome::Panic(message)) => panic!("{message}"),
            Some(Outcome::Hang) => {
                panic!("a scripted call that hangs was waited for, and nothing cut that short")
            }
            None => panic!("a scripted call was polled after its end"),
        }
    }
}

impl<Res, E> Drop for ScriptedFuture<Res, E> {
    fn drop(&mut self) {
        if self.end.is_some() {
            self.tally.drop_early();
        }
    }
}

impl<Res, E> fmt::Debug for ScriptedFuture<Res, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedFuture")
            .field("ends_at", &self.at)
            .field("is_over", &self.end.is_none())
            .finish_non_exhaustive()
    }
}
