//! The classifiers for services about which nothing is known.

use std::error::Error as StdError;

use tower::load_shed::error::Overloaded;
use tower::timeout::error::Elapsed;

use super::traits::{Classify, Replay};
use super::verdict::Verdict;
use crate::error::Stopped;
use crate::error::chain::chain;

/// Takes every request as repeatable: an `Ok` is a success, an `Err` is
/// transient, any `Clone` request may be sent again.
///
/// If your requests are not repeatable, say so with
/// [`idempotent_if`](Self::idempotent_if), or every timeout may do the work
/// twice.
///
/// Some errors are recognised anywhere in the chain of sources: tower's
/// `load_shed::error::Overloaded` is a local limit (throttled, no evidence
/// about the dependency); tower's `timeout::error::Elapsed` and tokio's
/// `time::error::Elapsed` got no answer (ambiguous). Under every classifier, a
/// steadfast [`Error`](crate::Error) that has given up and a
/// [`Refusal`](crate::Refusal) end the retries: they come from a stack, or from
/// a breaker, further down.
///
/// # Examples
///
/// ```
/// use steadfast::{DefaultClassify, Policy};
///
/// let policy = Policy::builder("ledger")
///     .classify(DefaultClassify::new().idempotent_if(|request: &String| request.starts_with("GET")))
///     .build()?;
/// # Ok::<(), steadfast::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultClassify {
    _private: (),
}

impl DefaultClassify {
    /// The default classifier.
    #[must_use]
    pub const fn new() -> Self {
        Self { _private: () }
    }

    /// Lets `repeatable` say which requests may be sent again when it is
    /// unknown whether the work was done.
    #[must_use]
    pub const fn idempotent_if<F>(self, repeatable: F) -> IdempotentIf<Self, F> {
        IdempotentIf::new(self, repeatable)
    }
}

impl<Req: Clone> Replay<Req> for DefaultClassify {
    type Memo = ();

    fn memo(&self, _: &Req) {}

    fn copy(&self, request: &Req) -> Option<Req> {
        Some(request.clone())
    }

    fn idempotent(&self, (): &()) -> bool {
        true
    }
}

impl<Req: Clone, Res> Classify<Req, Res> for DefaultClassify {
    fn classify(
        &self,
        (): &(),
        result: Result<&Res, &(dyn StdError + Send + Sync + 'static)>,
    ) -> Verdict {
        match result {
            Ok(_) => Verdict::success(),
            Err(error) => judge_error(error),
        }
    }
}

fn judge_error(error: &(dyn StdError + 'static)) -> Verdict {
    chain(error)
        .find_map(judge_cause)
        .unwrap_or_else(Verdict::transient)
}

/// What tower's and tokio's own errors say, whatever the protocol.
pub(crate) fn judge_cause(cause: &(dyn StdError + 'static)) -> Option<Verdict> {
    if cause.is::<Overloaded>() {
        let verdict = Verdict::throttled(None).because("shed by a local limit");
        return Some(verdict.not_asked());
    }
    if cause.is::<Elapsed>() || cause.is::<tokio::time::error::Elapsed>() {
        return Some(Verdict::ambiguous().because("timed out below"));
    }
    None
}

/// A classifier with its own answer to "may this be sent twice".
///
/// Made by `idempotent_if` of a classifier.
#[derive(Clone, Copy, Debug)]
pub struct IdempotentIf<C, F> {
    inner: C,
    repeatable: F,
}

impl<C, F> IdempotentIf<C, F> {
    pub(crate) const fn new(inner: C, repeatable: F) -> Self {
        Self { inner, repeatable }
    }
}

impl<Req, C, F> Replay<Req> for IdempotentIf<C, F>
where
    C: Replay<Req>,
    F: Fn(&Req) -> bool,
{
    type Memo = (C::Memo, bool);

    fn memo(&self, request: &Req) -> Self::Memo {
        (self.inner.memo(request), (self.repeatable)(request))
    }

    fn copy(&self, request: &Req) -> Option<Req> {
        self.inner.copy(request)
    }

    fn is_intact(&self, copy: &Req) -> bool {
        self.inner.is_intact(copy)
    }

    fn idempotent(&self, memo: &Self::Memo) -> bool {
        memo.1
    }
}

impl<Req, Res, C, F> Classify<Req, Res> for IdempotentIf<C, F>
where
    C: Classify<Req, Res>,
    F: Fn(&Req) -> bool,
{
    fn classify(
        &self,
        memo: &Self::Memo,
        result: Result<&Res, &(dyn StdError + Send + Sync + 'static)>,
    ) -> Verdict {
        self.inner.classify(&memo.0, result)
    }

    fn seal(&self, response: &mut Res, stopped: &Stopped) {
        self.inner.seal(response, stopped);
    }
}

/// A classifier made of one function over the result. Requests are taken as
/// in [`DefaultClassify`]: any `Clone` request, repeatable.
///
/// # Examples
///
/// ```
/// use steadfast::{Policy, Verdict, classify::classify_fn};
///
/// let policy = Policy::builder("inventory")
///     .classify(classify_fn(|result: Result<&u16, _>| match result {
///         Ok(200) => Verdict::success(),
///         Ok(503) => Verdict::overloaded(None).because(503),
///         Ok(code) => Verdict::terminal().because(*code),
///         Err(_) => Verdict::unreachable(),
///     }))
///     .build()?;
/// # Ok::<(), steadfast::ConfigError>(())
/// ```
pub const fn classify_fn<F, Res>(judge: F) -> ClassifyFn<F>
where
    F: Fn(Result<&Res, &(dyn StdError + Send + Sync + 'static)>) -> Verdict,
{
    ClassifyFn { judge }
}

/// Made by [`classify_fn`].
#[derive(Clone, Copy, Debug)]
pub struct ClassifyFn<F> {
    judge: F,
}

impl<F> ClassifyFn<F> {
    /// Lets `repeatable` say which requests may be sent again when it is
    /// unknown whether the work was done.
    pub const fn idempotent_if<G>(self, repeatable: G) -> IdempotentIf<Self, G> {
        IdempotentIf::new(self, repeatable)
    }
}

impl<Req: Clone, F> Replay<Req> for ClassifyFn<F> {
    type Memo = ();

    fn memo(&self, _: &Req) {}

    fn copy(&self, request: &Req) -> Option<Req> {
        Some(request.clone())
    }

    fn idempotent(&self, (): &()) -> bool {
        true
    }
}

impl<Req, Res, F> Classify<Req, Res> for ClassifyFn<F>
where
    Req: Clone,
    F: Fn(Result<&Res, &(dyn StdError + Send + Sync + 'static)>) -> Verdict,
{
    fn classify(
        &self,
        (): &(),
        result: Result<&Res, &(dyn StdError + Send + Sync + 'static)>,
    ) -> Verdict {
        (self.judge)(result)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::classify::verdict::Health;

    #[test]
    fn a_local_limit_is_found_however_deep_it_stands() {
        let shed = || Overloaded::new();
        for error in [
            io::Error::other(shed()),
            io::Error::other(io::Error::other(shed())),
        ] {
            let verdict = judge_error(&error);
            assert_eq!(verdict.health(), Health::Neutral, "{error:?}");
        }
        assert_eq!(judge_error(&shed()).health(), Health::Neutral);
        assert_eq!(
            judge_error(&io::Error::other("broken")),
            Verdict::transient()
        );
    }

    #[test]
    fn a_timeout_of_towers_got_no_answer() {
        assert!(!judge_error(&io::Error::other(Elapsed::new())).answered());
    }
    struct Spoilt;

    impl Replay<u8> for Spoilt {
        type Memo = ();
        fn memo(&self, _: &u8) {}
        fn copy(&self, request: &u8) -> Option<u8> {
            Some(*request)
        }
        fn is_intact(&self, copy: &u8) -> bool {
            *copy > 0
        }
        fn idempotent(&self, (): &()) -> bool {
            false
        }
    }

    #[test]
    fn another_word_on_repeating_leaves_the_word_on_copies() {
        let classify = IdempotentIf {
            inner: Spoilt,
            repeatable: |_: &u8| true,
        };
        assert!(!classify.is_intact(&0));
        assert!(classify.is_intact(&1));
    }
}
