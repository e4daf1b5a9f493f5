//! Which requests may be sent twice.

use http::{HeaderMap, Method};

/// The header by which a server recognises a request that it has seen.
pub(super) const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The rule for requests of which nobody knows whether they were worked on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Repeat {
    /// Idempotent methods, and whatever carries a key.
    #[default]
    Idempotent,
    /// Idempotent methods; everything else is sent once and never again.
    AsProxy,
    /// Everything.
    All,
}

impl Repeat {
    /// Whether a second send does no more than the first.
    pub(super) fn allows(self, method: &Method, headers: &HeaderMap) -> bool {
        match self {
            Self::All => true,
            Self::AsProxy => method.is_idempotent(),
            Self::Idempotent => method.is_idempotent() || has_key(headers),
        }
    }

    /// Whether a second send is ruled out, even of work that was not begun.
    pub(super) fn forbids(self, method: &Method) -> bool {
        self == Self::AsProxy && !method.is_idempotent()
    }
}

/// An empty key is none.
pub(super) fn has_key(headers: &HeaderMap) -> bool {
    let key = headers.get(IDEMPOTENCY_KEY);
    key.is_some_and(|key| !key.as_bytes().trim_ascii().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idempotent_methods_are_those_of_the_rfc() {
        let keyed = HeaderMap::from_iter([(
            http::HeaderName::from_static(IDEMPOTENCY_KEY),
            http::HeaderValue::from_static("7"),
        )]);
        let bare = HeaderMap::new();
        for (method, idempotent) in [
            (Method::GET, true),
            (Method::HEAD, true),
            (Method::OPTIONS, true),
            (Method::TRACE, true),
            (Method::PUT, true),
            (Method::DELETE, true),
            (Method::POST, false),
            (Method::PATCH, false),
            (Method::CONNECT, false),
            (Method::from_bytes(b"PURGE").unwrap(), false),
        ] {
            assert_eq!(Repeat::Idempotent.allows(&method, &bare), idempotent);
            assert_eq!(Repeat::AsProxy.allows(&method, &keyed), idempotent);
            assert_eq!(Repeat::AsProxy.forbids(&method), !idempotent);
            assert!(Repeat::Idempotent.allows(&method, &keyed));
            assert!(Repeat::All.allows(&method, &bare));
            assert!(!Repeat::Idempotent.forbids(&method));
        }
    }

    #[test]
    fn an_empty_key_protects_nothing() {
        let mut headers = HeaderMap::new();
        headers.insert(IDEMPOTENCY_KEY, http::HeaderValue::from_static(" "));
        assert!(!Repeat::Idempotent.allows(&Method::POST, &headers));
    }
}
