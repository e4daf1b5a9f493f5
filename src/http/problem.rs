//! An error as an HTTP answer.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use serde::Serialize;

use super::told::{End, Told};
use crate::error::Error;
use crate::notice::{RefusalNotice, random_id, whole_seconds};
use crate::refusal::Refusal;

const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");
/// Stands for a name that is not to be told.
const UNDISCLOSED: &str = "undisclosed";

/// What an HTTP caller is told of an [`Error`] or a [`Refusal`]: a problem
/// document (RFC 9457) with the status and the headers that make its client do
/// the right thing.
///
/// | the call | status | `code` | source of the rule |
/// |---|---|---|---|
/// | was refused by a breaker | 503 | `dependency_temporarily_unavailable` | RFC 9110 §15.6.4: unable for now, better after some delay |
/// | was refused by a limit of our own | 429 | `dependency_temporarily_unavailable` | RFC 6585 §4 |
/// | came on top of all that its [`CallCap`](crate::CallCap) allows | 429 | `call_cap_reached` | RFC 6585 §4 |
/// | failed, and we gave up | 503 | `dependency_failed` | RFC 9110 §15.6.4 |
/// | got no answer within the attempt timeout | 504 | `attempt_timed_out` | RFC 9110 §15.6.5 |
/// | ran into its deadline | 504 | `deadline_exceeded` | RFC 9110 §15.6.5 |
/// | was not accepted by a dependency that works | 502 | `dependency_rejected` | RFC 9110 §15.6.3 |
///
/// A failure that we gave up on is a 503 and not a 502, since 502 speaks of an
/// *invalid* answer and cannot say when to come back; many clients take a 502
/// for a broken proxy and try at once. Where waiting mends nothing (a terminal
/// answer, missing rights) a 503 would promise what will not happen; that is a
/// 502. A stack of which another stack further down gave up tells that end.
///
/// # Headers
///
/// - `Retry-After` (RFC 9110 §10.2.3), where the breaker or the dependency
///   named a wait: whole seconds, rounded up, at least 1.
/// - `x-should-retry: false`, where the retries were owned here or are useless:
///   a loop of the caller's would multiply them. `Retry-After` then says after
///   which time a *new* call makes sense.
///
/// # Body
///
/// `type` is `about:blank` and `title` the status's own phrase, as RFC 9457
/// §4.2.1 has it; `code` tells the kinds apart, and `detail` says in a sentence
/// what limited the call. `operation_id` and `dependency` always stand there.
/// Where the breaker had a say (it refused, or forbade a further attempt) the
/// members are exactly those of [`RefusalNotice`], which can be read out of
/// it. The text of the error's source, which may hold internals, and the note
/// of whoever opened a breaker by hand are never told.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use http_body_util::Full;
/// use steadfast::{Policy, http::Problem};
///
/// let policy = Policy::builder("inventory").build()?;
/// policy.breaker().ok_or("no breaker")?.force_open("maintenance");
/// let error = policy.call(|| async { Ok::<_, std::io::Error>(1) }).await.unwrap_err();
///
/// let answer: http::Response<Full<bytes::Bytes>> =
///     Problem::from(&error).operation_id("item-17").into_response();
/// assert_eq!(answer.status(), 503);
/// assert_eq!(answer.headers()["content-type"], "application/problem+json");
/// assert_eq!(answer.headers()["x-should-retry"], "false");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a problem tells nobody anything until it is made into an answer"]
pub struct Problem {
    told: Told,
    operation_id: Option<String>,
    named: bool,
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        Self::telling(Told::from(error))
    }
}

impl From<&Refusal> for Problem {
    fn from(refusal: &Refusal) -> Self {
        Self::telling(Told::from(refusal))
    }
}

impl Problem {
    const fn telling(told: Told) -> Self {
        Self {
            told,
            operation_id: None,
            named: true,
        }
    }

    /// The caller's name for the operation.
    ///
    /// # Default
    ///
    /// A random UUID, so that an answer can be found in the logs of both sides.
    pub fn operation_id(mut self, id: impl Into<String>) -> Self {
        self.operation_id = Some(id.into());
        self
    }

    /// Keeps the dependency's name from the caller: `dependency` is then
    /// `undisclosed`.
    ///
    /// # Default
    ///
    /// It is named: most callers sit within the same company, and "inventory
    /// is down" is what they need to know.
    pub const fn hide_dependency(mut self) -> Self {
        self.named = false;
        self
    }

    /// The status.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        match self.told.end {
            End::Refused | End::GaveUp => StatusCode::SERVICE_UNAVAILABLE,
            End::Limited | End::Capped => StatusCode::TOO_MANY_REQUESTS,
            End::OutOfTime | End::TimedOut => StatusCode::GATEWAY_TIMEOUT,
            End::Rejected => StatusCode::BAD_GATEWAY,
        }
    }

    /// The value of `Retry-After`, in seconds.
    #[must_use]
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.told.wait.map(whole_seconds)
    }

    /// The answer.
    #[must_use]
    pub fn into_response<B: From<Bytes>>(self) -> Response<B> {
        self.into_response_with(B::from)
    }

    pub(super) fn into_response_with<B>(self, body: impl FnOnce(Bytes) -> B) -> Response<B> {
        let (status, seconds, is_final) = (
            self.status(),
            self.retry_after_seconds(),
            self.told.is_final,
        );
        // Texts and numbers only: there is nothing in it that cannot be
        // written.
        let document = serde_json::to_vec(&self.document()).unwrap_or_default();
        let mut response = Response::new(body(document.into()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, PROBLEM_JSON);
        if let Some(seconds) = seconds {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if is_final {
            headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        }
        response
    }

    fn document(self) -> Document {
        let status = self.status();
        let dependency = if self.named {
            self.told.dependency
        } else {
            UNDISCLOSED
        };
        let more = match &self.told.refusal {
            Some(refusal) => More::Notice(
                refusal
                    .notice(self.operation_id.as_deref())
                    .naming(dependency),
            ),
            None => More::Plain {
                code: code(self.told.end),
                operation_id: self.operation_id.unwrap_or_else(random_id),
                dependency,
            },
        };
        Document {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or_default(),
            status: status.as_u16(),
            detail: self.told.detail(self.named),
            more,
        }
    }
}

const fn code(end: End) -> &'static str {
    match end {
        End::Refused | End::Limited => RefusalNotice::CODE,
        End::Capped => "call_cap_reached",
        End::OutOfTime => "deadline_exceeded",
        End::TimedOut => "attempt_timed_out",
        End::GaveUp => "dependency_failed",
        End::Rejected => "dependency_rejected",
    }
}

#[derive(Serialize)]
struct Document {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    #[serde(flatten)]
    more: More,
}

#[derive(Serialize)]
#[serde(untagged)]
enum More {
    Notice(RefusalNotice),
    Plain {
        code: &'static str,
        operation_id: String,
        dependency: &'static str,
    },
}
