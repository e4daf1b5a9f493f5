//! What the errors of model providers mean.

mod anthropic;
mod bedrock;
mod found;
mod kind;
mod openai;
mod vertex;

use std::time::Duration;

use ::http::{HeaderMap, StatusCode};

use super::body::ErrorBody;
use super::classify::HttpClassifier;
use super::head::AnswerHead;
use crate::classify::verdict::{Again, Verdict};
use found::Found;
pub use kind::ProviderErrorKind;

/// Whose errors are read, or in whose shape: many gateways and servers speak
/// like one of these.
///
/// A status alone does not tell a rate limit, which a wait mends, from a spend
/// cap, which only a fallback does; both are 429. The code in the body does.
/// Codes and their sources, as of November 2026:
///
/// | provider | where | overloaded | rate limit | quota | content filter | source |
/// |---|---|---|---|---|---|---|
/// | `OpenAi` | `error.code`, then `error.type` | `server_is_overloaded` | `rate_limit_exceeded`, `slow_down` | `insufficient_quota`, `credit_balance_exhausted`, `billing_hard_limit_reached`, `…_spend_limit_exceeded` | `content_filter`, `content_policy_violation` | OpenAI's guides to error codes and spend limits, Azure's to content filters |
/// | `Anthropic` | `error.type` | `overloaded_error` | `rate_limit_error` | `billing_error`, `enforced_spend_limit_reached`, a spend limit of one's own (by its message) | – | Anthropic's API errors and rate limits |
/// | `Bedrock` | `x-amzn-errortype`, or `code`, `__type` | `ServiceUnavailableException`, `ModelNotReadyException` | `ThrottlingException` | `ServiceQuotaExceededException` | – | Bedrock's API error codes |
/// | `Vertex` | `error.status`, `error.details` | `UNAVAILABLE` | `RESOURCE_EXHAUSTED` | the same with a quota per day or of 0, `BILLING_DISABLED` | `blockReason`, `SAFETY` | Vertex AI's API errors, `google.rpc` error details |
///
/// # Examples
///
/// ```
/// use http::{HeaderMap, StatusCode};
/// use steadfast::http::{Provider, ProviderErrorKind};
///
/// let body = br#"{"error":{"type":"insufficient_quota","code":null}}"#;
/// let status = StatusCode::TOO_MANY_REQUESTS;
/// let error = Provider::OpenAi.read(status, &HeaderMap::new(), body).unwrap();
/// assert_eq!(error.kind(), ProviderErrorKind::Quota);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Provider {
    /// OpenAI, Azure OpenAI, and what speaks like them.
    OpenAi,
    /// Anthropic.
    Anthropic,
    /// Amazon Bedrock.
    Bedrock,
    /// Vertex AI and the Gemini API.
    Vertex,
}

impl Provider {
    /// Reads an error answer; `body` is its body or the beginning of it.
    ///
    /// `None` where it says nothing known, or something that does not go with
    /// the status; then what HTTP says of the status stands. A body that is
    /// not JSON, or in another shape, says nothing. Of one that breaks off,
    /// what stands before the break counts if nothing behind it could have
    /// changed it: a rate limit might have been a spend cap.
    #[must_use]
    pub fn read(
        self,
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Option<ProviderError> {
        let found = Found::read(body);
        let kind = match self {
            Self::OpenAi => openai::read(&found),
            Self::Anthropic => anthropic::read(&found),
            Self::Bedrock => bedrock::read(headers, &found),
            Self::Vertex => vertex::read(&found),
        };
        let told_by_header = self == Self::Bedrock && bedrock::by_header(headers).is_some();
        let certain = found.whole || told_by_header;
        let kind = kind.filter(|kind| certain || !kind.can_be_refined())?;
        Some(ProviderError {
            kind: kind.at(status)?,
            wait: match self {
                Self::Vertex => vertex::retry_delay(&found),
                _ => None,
            },
        })
    }

    /// The rule for [`HttpClassifier::rule`].
    fn judge(self, head: &AnswerHead<'_>) -> Option<Verdict> {
        if head.status().as_u16() < 400 {
            return None;
        }
        let body = head.extensions().get::<ErrorBody>();
        let body = body.map_or(&[][..], |body| body.bytes());
        let error = self.read(head.status(), head.headers(), body)?;
        let verdict = error.verdict(head.hints().wait());
        // A header may forbid another try, but not allow one where the code
        // says that it would end the same way.
        let verdict = match verdict.again() {
            Again::Never => verdict,
            Again::AfterDelay => head.refined(verdict),
        };
        Some(verdict)
    }
}

/// What an error answer of a [`Provider`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderError {
    kind: ProviderErrorKind,
    wait: Option<Duration>,
}

impl ProviderError {
    /// What kind of error it is.
    #[must_use]
    pub const fn kind(&self) -> ProviderErrorKind {
        self.kind
    }

    /// How long the body asks us to wait.
    #[must_use]
    pub const fn wait(&self) -> Option<Duration> {
        self.wait
    }

    /// The verdict; `wait` is what the headers ask for. The longer of the two
    /// waits counts, so that none is undercut.
    #[must_use]
    pub fn verdict(&self, wait: Option<Duration>) -> Verdict {
        let wait = self.wait.max(wait);
        self.kind.verdict(wait).because(self.kind.as_str())
    }
}

impl HttpClassifier {
    /// Reads the errors of a model provider, and takes its requests as
    /// repeatable.
    ///
    /// The code in the body decides where there is one that is known, see
    /// [`Provider`]; else the tables of HTTP do. The body of an error is seen
    /// only through a [`LookLayer`](super::LookLayer) around the client.
    ///
    /// A generation is a POST and changes nothing: sent twice, it costs twice.
    /// So it is repeated where it is unknown what became of it, and the retry
    /// budget holds what that may cost: a 5xx one token, an attempt without an
    /// answer, which may have been worked on in vain, two. To switch it off,
    /// call [`repeats_idempotent`](Self::repeats_idempotent) after this. What
    /// [`for_proxies`](Self::for_proxies) promises stays promised.
    ///
    /// # Examples
    ///
    /// ```
    /// use steadfast::http::{HttpClassifier, Provider};
    /// use steadfast::Policy;
    ///
    /// let classify = HttpClassifier::new().provider(Provider::Anthropic);
    /// let policy = Policy::builder("models").classify(classify).build()?;
    /// # Ok::<(), steadfast::ConfigError>(())
    /// ```
    #[must_use]
    pub fn provider(self, provider: Provider) -> Self {
        let is_proxy = self.is_for_proxies();
        let judging = self.rule(move |head| provider.judge(head));
        if is_proxy {
            judging
        } else {
            judging.repeats_all()
        }
    }
}
