//! What was seen of the body of an error.

use bytes::{Bytes, BytesMut};

/// The beginning of the body of an error answer, as an extension of the answer.
///
/// Put there by [`LookLayer`](super::LookLayer); also by hand, where a client
/// has the body in memory anyway.
///
/// # Examples
///
/// ```
/// use steadfast::http::ErrorBody;
///
/// let mut answer = http::Response::new(());
/// answer.extensions_mut().insert(ErrorBody::complete("no such model"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorBody {
    bytes: Bytes,
    complete: bool,
}

impl ErrorBody {
    /// All of a body.
    pub fn complete(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let complete = true;
        Self { bytes, complete }
    }

    /// The beginning of a body.
    pub fn truncated(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let complete = false;
        Self { bytes, complete }
    }

    /// The first `limit` bytes of `data`, which is all there is if `ended`.
    pub(super) fn of<'a>(
        data: impl Iterator<Item = &'a Bytes> + Clone,
        limit: usize,
        ended: bool,
    ) -> Self {
        let mut parts = data.filter(|data| !data.is_empty());
        let bytes = match (parts.next(), parts.clone().next()) {
            (None, _) => Bytes::new(),
            (Some(only), None) if only.len() <= limit => only.clone(),
            // Copied, so that a large frame is not kept for its beginning.
            (Some(first), _) => {
                let mut bytes = BytesMut::new();
                for part in std::iter::once(first).chain(parts) {
                    let room = limit.saturating_sub(bytes.len());
                    bytes.extend_from_slice(part.get(..room).unwrap_or(part));
                }
                bytes.freeze()
            }
        };
        let complete = ended;
        Self { bytes, complete }
    }

    /// What was seen.
    #[must_use]
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Whether that is all of the body: it was cut by no limit and no error.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_a_body_is_told_from_its_beginning() {
        assert!(ErrorBody::complete("no such model").is_complete());
        assert!(!ErrorBody::truncated("no such").is_complete());
        let parts = [Bytes::from("no "), Bytes::from("such model")];
        for (limit, ended, seen) in [(7, false, "no such"), (99, true, "no such model")] {
            let body = ErrorBody::of(parts.iter(), limit, ended);
            assert_eq!(
                (&body.bytes()[..], body.is_complete()),
                (seen.as_bytes(), ended)
            );
        }
    }
}
