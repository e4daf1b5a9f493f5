//! The head of an answer, as rules see it.

use std::time::SystemTime;

use http::{Extensions, HeaderMap, StatusCode};

use super::hint::Hints;
use super::status;
use crate::classify::verdict::{Again, Verdict};

/// The head of an answer, as a rule of
/// [`HttpClassifier::rule`](super::HttpClassifier::rule) sees it.
#[derive(Clone, Copy, Debug)]
pub struct AnswerHead<'a> {
    status: StatusCode,
    headers: &'a HeaderMap,
    extensions: &'a Extensions,
    hints: Hints,
}

impl<'a> AnswerHead<'a> {
    pub(super) fn read(
        status: StatusCode,
        headers: &'a HeaderMap,
        extensions: &'a Extensions,
        now: SystemTime,
    ) -> Self {
        Self {
            status,
            headers,
            extensions,
            hints: Hints::read(headers, now),
        }
    }

    /// The status.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// The headers.
    #[must_use]
    pub const fn headers(&self) -> &'a HeaderMap {
        self.headers
    }

    /// The extensions, such as what layers around the client leave there.
    #[must_use]
    pub const fn extensions(&self) -> &'a Extensions {
        self.extensions
    }

    /// What the headers say about coming again.
    #[must_use]
    pub const fn hints(&self) -> Hints {
        self.hints
    }

    /// The verdict by the tables of
    /// [`HttpClassifier`](super::HttpClassifier).
    #[must_use]
    pub fn ordinary(&self) -> Verdict {
        let wait = self.hints.wait();
        let verdict = if self.status == StatusCode::SERVICE_UNAVAILABLE && self.is_marked() {
            Verdict::overloaded(wait).because(self.status.as_u16())
        } else {
            status::ordinary(self.status, wait)
        };
        self.refined(verdict)
    }

    /// `verdict` with what the headers say on whether to come again.
    #[must_use]
    pub fn refined(&self, verdict: Verdict) -> Verdict {
        match (self.hints.again(), verdict.again()) {
            (Some(false), _) => verdict.never_again(),
            (Some(true), Again::Never) if self.status.is_client_error() => {
                let again = Verdict::transient().hinted(self.hints.wait());
                again.no_evidence().because(self.status.as_u16())
            }
            _ => verdict,
        }
    }

    /// Whether the server says that it is overloaded.
    fn is_marked(&self) -> bool {
        ["x-envoy-overloaded", "x-envoy-local-overloaded"]
            .iter()
            .any(|mark| self.headers.contains_key(*mark))
    }
}
