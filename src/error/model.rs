//! What a language model is told of an error.

use std::fmt::Write as _;
use std::time::Duration;

use super::chain::chain;
use super::{Error, ErrorKind, Stopped};
use crate::classify::verdict::{Again, Reason};
use crate::refusal::{Refusal, RefusalReason};

impl Error {
    /// The plain text for a model's tool result: who, what limited the call,
    /// how many tries over how long, and that it must not be made again.
    ///
    /// A model that reads "connection reset" calls the tool again, and so does
    /// each of a thousand sessions of one workflow: a retry loop that no budget
    /// bounds and no breaker hears of. The retries were made here, where both
    /// are; the text says so, and that it is final.
    ///
    /// Only words of this crate, the dependency's name, and the reason that the
    /// classifier gave stand in it. Never the text of a
    /// [`source`](std::error::Error::source), which may hold hosts, paths or
    /// keys, nor the note of whoever opened a breaker by hand. Where a stack
    /// further down has ended the call, its end is told, as it says more.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use steadfast::Policy;
    ///
    /// let policy = Policy::builder("web search").max_attempts(1).build().unwrap();
    /// let down = || async { Err::<(), _>(std::io::Error::other("10.0.0.7: refused")) };
    /// let error = policy.call(down).await.unwrap_err();
    ///
    /// let text = error.for_model();
    /// assert!(text.starts_with("The call to `web search` failed: no attempts left."));
    /// assert!(text.contains("It was tried once"));
    /// assert!(text.ends_with("This is final: do not retry this call."));
    /// assert!(!text.contains("10.0.0.7"));
    /// # }
    /// ```
    #[must_use]
    pub fn for_model(&self) -> String {
        let mut text = match End::of(self) {
            End::Call(error) => error.what(),
            End::Refusal(refusal) => refused(refusal.dependency(), refusal.reason()),
        };
        let tries = match End::of(self) {
            End::Call(error) => error.attempts().max(self.attempts()),
            End::Refusal(_) => self.attempts(),
        };
        text.push_str(". ");
        match tries {
            0 => text.push_str("It was not sent"),
            1 => text.push_str("It was tried once"),
            tries => {
                let _ = write!(text, "It was tried {tries} times");
            }
        }
        if let Some(took) = rounded(self.elapsed()) {
            let _ = match tries {
                0 => write!(text, ", after waiting for {took}"),
                _ => write!(text, " over {took}"),
            };
        }
        text.push_str(". This is final: do not retry this call.");
        text
    }

    /// Who, and what limited the call.
    fn what(&self) -> String {
        let who = self.dependency();
        match (self.kind(), self.stopped()) {
            (ErrorKind::Refused, Some(Stopped::Breaker(refusal))) => refused(who, refusal.reason()),
            (ErrorKind::Refused, stopped) => {
                format!("The call to `{who}` was not made{}", limit(stopped))
            }
            (ErrorKind::DeadlineExceeded, _) => {
                format!("The time for the call to `{who}` ran out before there was an answer")
            }
            (ErrorKind::TimedOut, stopped) => {
                format!("`{who}` did not answer in time{}", limit(stopped))
            }
            (ErrorKind::Failed, stopped) => match self.verdict() {
                // What it said matters only where it will be said again.
                Some(verdict) if verdict.again() == Again::Never => {
                    let reason = said(verdict.reason());
                    format!("`{who}` did not do what was asked{reason}")
                }
                _ => format!("The call to `{who}` failed{}", limit(stopped)),
            },
        }
    }
}

/// Where a call ended: in the stack of this error, or further down.
enum End<'a> {
    Call(&'a Error),
    Refusal(&'a Refusal),
}

impl<'a> End<'a> {
    fn of(error: &'a Error) -> Self {
        // An end of this stack's own, a deadline say, is the one to be told.
        if error.kind() != ErrorKind::Failed {
            return Self::Call(error);
        }
        let below = error.source.as_deref().and_then(|source| {
            chain(source).find_map(|cause| {
                let call = cause.downcast_ref().map(Self::of);
                call.or_else(|| cause.downcast_ref().map(Self::Refusal))
            })
        });
        below.unwrap_or(Self::Call(error))
    }
}

fn refused(who: &str, reason: RefusalReason) -> String {
    let why = match reason {
        RefusalReason::Open => "it failed too often",
        RefusalReason::HalfOpen => "whether it works again is being tried",
        RefusalReason::Recovering => "it recovers, and takes a growing share of the calls",
        RefusalReason::ForcedOpen => "calls to it were stopped by hand",
        RefusalReason::ConcurrencyLimit => "too many calls to it are in flight",
    };
    format!("`{who}` is temporarily unavailable: {why}")
}

fn limit(stopped: Option<Stopped>) -> String {
    match stopped {
        Some(stopped) => format!(": {stopped}"),
        None => String::new(),
    }
}

fn said(reason: Reason) -> String {
    format!(": {reason}")
}

/// In units that read well; `None` for less than a millisecond.
fn rounded(took: Duration) -> Option<String> {
    let millis = took.as_millis();
    match millis {
        0 => None,
        1..1_000 => Some(format!("{millis} ms")),
        _ if took.as_secs() < 100 => Some(format!("{:.1} s", took.as_secs_f64())),
        _ => Some(format!("{} s", took.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_units_that_read_well() {
        let told = |millis| rounded(Duration::from_micros(millis));
        assert_eq!(told(999), None);
        assert_eq!(told(1_000).as_deref(), Some("1 ms"));
        assert_eq!(told(999_999).as_deref(), Some("999 ms"));
        assert_eq!(told(2_060_000).as_deref(), Some("2.1 s"));
        assert_eq!(told(330_400_000).as_deref(), Some("330 s"));
    }
}
