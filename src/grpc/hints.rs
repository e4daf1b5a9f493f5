//! What a status says about coming again.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::HeaderMap;
use prost::Message;
use tonic::Status;
use tonic::metadata::MetadataMap;
use tonic_types::pb;

use crate::http::Hints;

const DETAILS: &str = "grpc-status-details-bin";

/// What the headers or trailers around a `grpc-status` say about a further
/// try.
///
/// | where | says | from |
/// |---|---|---|
/// | `grpc-retry-pushback-ms` of 0 or more | wait as long | gRPC proposal A6 |
/// | the same, negative, given twice, or not a number of 32 bits | never again | A6 |
/// | `google.rpc.RetryInfo` in `grpc-status-details-bin` | wait as long | `google/rpc/error_details.proto` |
/// | `Retry-After`, `x-should-retry` of a proxy | as [`Hints`] reads them | |
///
/// Where several name a wait, the longest counts, so that none is undercut. A
/// `RetryInfo` of zero or less names none: it asks for no wait, so our own
/// backoff holds. Details that cannot be decoded are passed over.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use steadfast::grpc::StatusHints;
///
/// let mut trailers = http::HeaderMap::new();
/// trailers.insert("grpc-retry-pushback-ms", "250".parse()?);
/// let hints = StatusHints::read(&trailers, SystemTime::now());
/// assert_eq!(hints.wait(), Some(Duration::from_millis(250)));
///
/// trailers.insert("grpc-retry-pushback-ms", "-1".parse()?);
/// assert!(StatusHints::read(&trailers, SystemTime::now()).forbids());
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatusHints {
    wait: Option<Duration>,
    forbids: bool,
}

impl StatusHints {
    /// Nothing was said.
    pub const NONE: Self = Self {
        wait: None,
        forbids: false,
    };

    /// Reads headers or trailers; `now` is the present by the wall clock.
    #[must_use]
    pub fn read(headers: &HeaderMap, now: SystemTime) -> Self {
        Self::of_headers(headers, now)
            .at_least(details(headers).and_then(|details| retry_info(&details)))
    }

    /// What a status carries that a generated client has made of them.
    #[must_use]
    pub fn of(status: &Status) -> Self {
        // tonic has taken the details out of the metadata.
        Self::of_headers(status.metadata().as_ref(), SystemTime::now())
            .at_least(retry_info(status.details()))
    }

    /// How long to wait before the next try, at least.
    #[must_use]
    pub const fn wait(&self) -> Option<Duration> {
        self.wait
    }

    /// Whether the server asks not to be tried again.
    #[must_use]
    pub const fn forbids(&self) -> bool {
        self.forbids
    }

    fn of_headers(headers: &HeaderMap, now: SystemTime) -> Self {
        let hints = Hints::read(headers, now);
        Self {
            wait: hints.wait(),
            forbids: hints.again() == Some(false),
        }
    }

    /// Of two waits the longer; an absent one is the shortest.
    fn at_least(mut self, wait: Option<Duration>) -> Self {
        self.wait = self.wait.max(wait);
        self
    }
}

/// The encoded `google.rpc.Status`. Base64 is left to tonic, which takes it
/// with and without padding; its `Status::from_header_map` panics on bad one.
fn details(headers: &HeaderMap) -> Option<Bytes> {
    let mut one = HeaderMap::with_capacity(1);
    one.insert(DETAILS, headers.get(DETAILS)?.clone());
    let metadata = MetadataMap::from_headers(one);
    metadata.get_bin(DETAILS)?.to_bytes().ok()
}

/// The longest wait that a `RetryInfo` in the details names.
///
/// Decoded here and not by way of tonic-types' own `RetryInfo`: the conversion
/// below that overflows on the least of all durations.
fn retry_info(details: &[u8]) -> Option<Duration> {
    let status = pb::Status::decode(details).ok()?;
    let infos = status.details.iter().filter(|any| {
        let name = any.type_url.rsplit('/').next();
        name == Some("google.rpc.RetryInfo")
    });
    infos
        .filter_map(|any| {
            let delay = pb::RetryInfo::decode(&*any.value).ok()?.retry_delay?;
            positive(delay.seconds, delay.nanos)
        })
        .max()
}

/// A `google.protobuf.Duration`, whether or not its parts agree in sign.
fn positive(seconds: i64, nanos: i32) -> Option<Duration> {
    let nanos = i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    let nanos = u128::try_from(nanos).ok().filter(|nanos| *nanos > 0)?;
    let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
    let rest = u32::try_from(nanos % 1_000_000_000).unwrap_or(0);
    Some(Duration::new(seconds, rest))
}
