//! The classifier for HTTP.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use http::{Extensions, HeaderMap, Method, Request, Response, StatusCode};

use super::body::{CopyBody, copy_request};
use super::fault::judge_error;
use super::head::AnswerHead;
use super::hint::Hints;
use super::idempotency::Repeat;
use super::seal::Sealed;
use crate::classify::IdempotentIf;
use crate::classify::traits::{Classify, Replay};
use crate::classify::verdict::{Again, Verdict};
use crate::error::Stopped;

/// Judges HTTP answers and the errors of HTTP clients, and says which requests
/// may be sent twice.
///
/// # Answers
///
/// | status | verdict |
/// |---|---|
/// | 1xx, 2xx, 3xx | success |
/// | 429 | throttled |
/// | 408, 425 | as 429: not begun, tried again, no evidence about the dependency |
/// | 401, 402, 403, 407, 511 | blocked |
/// | 400, 404, 409, 410, 413, 422, all other 4xx, 501, 505, 506, 508, 510 | terminal |
/// | 529, and 503 with a hint or an overload mark | overloaded |
/// | 521, 522, 523, 525, 526 | unreachable: a proxy that could not connect |
/// | 500, 502, 503, 504, all other | transient |
///
/// Headers refine it, see [`Hints`]: how long to wait goes with every verdict
/// that may be tried again; `x-should-retry: false` and a negative gRPC
/// pushback forbid another try and leave the breaker what the status says;
/// `x-should-retry: true` allows one after a 4xx too, if the request is
/// idempotent. An overload mark is Envoy's `x-envoy-overloaded` or
/// `x-envoy-local-overloaded`. An answer that carries [`Sealed`] comes from a
/// stack further down that has given up: it is final.
///
/// # Errors
///
/// See [`judge_error`].
///
/// # Requests
///
/// Repeatable are GET, HEAD, OPTIONS, TRACE, PUT and DELETE (RFC 9110 §9.2.2),
/// and whatever carries an `Idempotency-Key`, which is the same on every
/// attempt. Anything else is sent again only if it is certain that the work
/// was not begun. [`for_proxies`](Self::for_proxies) never repeats what came
/// from someone else; [`repeats_all`](Self::repeats_all) repeats everything.
/// Whether a body can be sent again is up to
/// [`CopyBody`](super::CopyBody).
///
/// # Poisoned requests
///
/// A request that makes every instance fail is bounded by the number of
/// attempts, and counts as no more than those. Where single clients send many
/// of them, let a breaker per client or route judge
/// (`Breakers`, feature `keyed`), so that they open theirs
/// and nobody else's.
///
/// # Examples
///
/// ```
/// use steadfast::{Policy, Verdict, http::HttpClassifier};
///
/// let classify = HttpClassifier::new()
///     // This dependency answers 409 to whoever comes too early:
///     .status(409, |hints| Verdict::throttled(hints.wait()).because(409))
///     // and puts its own mark on answers of a degraded mode.
///     .rule(|head| {
///         let degraded = head.headers().contains_key("x-degraded");
///         degraded.then(|| Verdict::overloaded(head.hints().wait()).because("degraded"))
///     });
/// let policy = Policy::builder("inventory").classify(classify).build()?;
/// # Ok::<(), steadfast::ConfigError>(())
/// ```
#[derive(Clone, Default)]
pub struct HttpClassifier {
    rules: Vec<Rule>,
    repeat: Repeat,
}

type Rule = Arc<dyn Fn(&AnswerHead<'_>) -> Option<Verdict> + Send + Sync>;

impl HttpClassifier {
    /// The rules of the tables above.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Judges this status another way.
    #[must_use]
    pub fn status(
        self,
        code: u16,
        judge: impl Fn(Hints) -> Verdict + Send + Sync + 'static,
    ) -> Self {
        self.rule(move |head| (head.status() == code).then(|| judge(head.hints())))
    }

    /// Adds a rule: its verdict stands where it has one, before the tables and
    /// before rules added earlier.
    #[must_use]
    pub fn rule(
        mut self,
        judge: impl Fn(&AnswerHead<'_>) -> Option<Verdict> + Send + Sync + 'static,
    ) -> Self {
        self.rules.push(Arc::new(judge));
        self
    }

    /// For proxies, which pass on requests of others: nothing but the methods
    /// that RFC 9110 calls idempotent is sent twice, whatever is known of the
    /// work and whatever keys the request carries (§9.2.2: "a proxy MUST NOT
    /// automatically retry non-idempotent requests").
    #[must_use]
    pub const fn for_proxies(mut self) -> Self {
        self.repeat = Repeat::AsProxy;
        self
    }

    /// Every request may be sent twice: for dependencies that only read or
    /// compute, whatever the method.
    #[must_use]
    pub const fn repeats_all(mut self) -> Self {
        self.repeat = Repeat::All;
        self
    }

    /// Idempotent methods and requests with a key may be sent twice, and no
    /// others: the default, for where something else was set before.
    #[must_use]
    pub const fn repeats_idempotent(mut self) -> Self {
        self.repeat = Repeat::Idempotent;
        self
    }

    /// Lets `repeatable` say which requests may be sent again when it is
    /// unknown whether the work was done.
    #[must_use]
    pub const fn idempotent_if<F>(self, repeatable: F) -> IdempotentIf<Self, F> {
        IdempotentIf::new(self, repeatable)
    }

    pub(super) fn is_for_proxies(&self) -> bool {
        self.repeat == Repeat::AsProxy
    }

    pub(super) fn remember(&self, method: &Method, headers: &HeaderMap) -> HttpMemo {
        HttpMemo {
            repeatable: self.repeat.allows(method, headers),
        }
    }

    /// Whether a second send is ruled out, even of work that was not begun.
    pub(super) fn forbids(&self, method: &Method) -> bool {
        self.repeat.forbids(method)
    }

    /// The verdict on an answer's head.
    pub(super) fn judge_answer(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        extensions: &Extensions,
    ) -> Verdict {
        if self.rules.is_empty() && status.as_u16() < 400 {
            return Verdict::success();
        }
        let head = AnswerHead::read(status, headers, extensions, SystemTime::now());
        let by_rule = self.rules.iter().rev().find_map(|rule| rule(&head));
        let verdict = by_rule.unwrap_or_else(|| head.ordinary());
        if verdict.again() == Again::AfterDelay && extensions.get::<Sealed>().is_some() {
            return Verdict::refused_below();
        }
        verdict
    }
}

impl fmt::Debug for HttpClassifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClassifier")
            .field("rules", &self.rules.len())
            .field("repeat", &self.repeat)
            .finish()
    }
}

impl<B: CopyBody> Replay<Request<B>> for HttpClassifier {
    type Memo = HttpMemo;

    fn memo(&self, request: &Request<B>) -> HttpMemo {
        self.remember(request.method(), request.headers())
    }

    fn copy(&self, request: &Request<B>) -> Option<Request<B>> {
        if self.forbids(request.method()) {
            return None;
        }
        copy_request(request)
    }

    fn is_intact(&self, copy: &Request<B>) -> bool {
        copy.body().is_intact()
    }

    fn idempotent(&self, memo: &HttpMemo) -> bool {
        memo.is_repeatable()
    }
}

impl<B: CopyBody, R> Classify<Request<B>, Response<R>> for HttpClassifier {
    fn classify(
        &self,
        _: &HttpMemo,
        result: Result<&Response<R>, &(dyn StdError + Send + Sync + 'static)>,
    ) -> Verdict {
        match result {
            Ok(answer) => self.judge_answer(answer.status(), answer.headers(), answer.extensions()),
            Err(error) => judge_error(error),
        }
    }

    fn seal(&self, answer: &mut Response<R>, stopped: &Stopped) {
        answer.extensions_mut().insert(Sealed::new(*stopped));
    }
}

/// What [`HttpClassifier`] remembers of a request.
#[derive(Clone, Copy, Debug)]
pub struct HttpMemo {
    repeatable: bool,
}

impl HttpMemo {
    pub(super) const fn is_repeatable(self) -> bool {
        self.repeatable
    }
}
