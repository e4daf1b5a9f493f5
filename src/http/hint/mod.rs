//! What a server says about coming again: when, and whether at all.

mod date;
mod pushback;
#[cfg(test)]
mod tests;

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::RETRY_AFTER;

use super::number::{digits, millis};
use pushback::Pushback;

/// What the headers of an answer, or its trailers, say about a further try.
///
/// # When
///
/// The first of these that can be read gives the [`wait`](Self::wait), the most
/// precise first; what cannot be read is passed over:
///
/// | header | form | from |
/// |---|---|---|
/// | `grpc-retry-pushback-ms` | whole milliseconds | gRPC proposal A6 |
/// | `retry-after-ms` | milliseconds, with or without a fraction | OpenAI |
/// | `x-ms-retry-after-ms` | milliseconds, with or without a fraction | Azure |
/// | `Retry-After` | whole seconds, or a date | RFC 9110 §10.2.3 |
///
/// A number is ASCII digits, in optional whitespace; `+5`, `-1`, `1e3` and
/// `NaN` are none, and neither is `1.5` as seconds. Zero means no wait. One too
/// large for its type stays the largest: it never becomes a short wait.
///
/// A date has one of the three forms of RFC 9110 §5.6.7 and must exist; a wrong
/// day of the week, an offset instead of `GMT`, a leap second and years before
/// 1970 are not read. Two digits mean the latest such year that is at most
/// fifty years ahead. It is measured against the answer's own `Date`, which
/// takes the server's clock out of the sum, or against `now` where there is
/// none. A date that has passed means no wait.
///
/// Of several lines of one header the longest wait counts, so that none is
/// undercut.
///
/// # Whether
///
/// [`again`](Self::again) is `x-should-retry`: `true` or `false`. Whoever
/// forbids wins: one `false` among several, and a `grpc-retry-pushback-ms` that
/// is negative, given twice, or not a 32-bit number (A6 reads all of these as
/// "do not retry").
///
/// # Examples
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use steadfast::http::Hints;
///
/// let mut answer = http::Response::new(());
/// answer.headers_mut().insert("retry-after", "120".parse()?);
/// answer.headers_mut().insert("x-should-retry", "true".parse()?);
///
/// let hints = Hints::read(answer.headers(), SystemTime::now());
/// assert_eq!(hints.wait(), Some(Duration::from_secs(120)));
/// assert_eq!(hints.again(), Some(true));
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    wait: Option<Duration>,
    again: Option<bool>,
}

impl Hints {
    /// Reads the headers; `now` is the present by the wall clock.
    #[must_use]
    pub fn read(headers: &HeaderMap, now: SystemTime) -> Self {
        let pushback = Pushback::read(headers);
        let wait = pushback
            .and_then(Pushback::wait)
            .or_else(|| longest(headers, "retry-after-ms", millis))
            .or_else(|| longest(headers, "x-ms-retry-after-ms", millis))
            .or_else(|| retry_after(headers, now));
        let again = match pushback {
            Some(Pushback::Never) => Some(false),
            _ => should_retry(headers),
        };
        Self { wait, again }
    }

    /// How long to wait before the next try, at least.
    #[must_use]
    pub const fn wait(&self) -> Option<Duration> {
        self.wait
    }

    /// Whether to try again at all, where the server says so.
    #[must_use]
    pub const fn again(&self) -> Option<bool> {
        self.again
    }
}

fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    longest(headers, RETRY_AFTER.as_str(), |text| {
        if let Some(seconds) = digits(text) {
            return Some(Duration::from_secs(seconds));
        }
        let date = date::read(text, now)?;
        let sent = date::sent_at(headers, now);
        Some(date.duration_since(sent).unwrap_or(Duration::ZERO))
    })
}

/// The longest wait that `read` finds among the lines of one header.
fn longest(
    headers: &HeaderMap,
    name: &str,
    read: impl Fn(&[u8]) -> Option<Duration>,
) -> Option<Duration> {
    let lines = headers.get_all(name).iter();
    lines
        .filter_map(|line| read(line.as_bytes().trim_ascii()))
        .max()
}

fn should_retry(headers: &HeaderMap) -> Option<bool> {
    let lines = headers.get_all("x-should-retry").iter();
    lines
        .filter_map(|line| match line.as_bytes().trim_ascii() {
            word if word.eq_ignore_ascii_case(b"true") => Some(true),
            word if word.eq_ignore_ascii_case(b"false") => Some(false),
            _ => None,
        })
        .min()
}
