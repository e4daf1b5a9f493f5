//! Which bodies can be copied.

use ::http::Request;
use bytes::{Buf, Bytes};
use http_body::Body;
use http_body_util::combinators::{BoxBody, UnsyncBoxBody};
use http_body_util::{Either, Empty, Full};

/// A body of which a copy can be had before it is sent, for a later attempt.
///
/// Implemented for bodies that lie in memory, which are cloned, and for
/// [`ReplayBody`](super::ReplayBody), which makes any body one that can be
/// copied. Boxed bodies, those of axum (feature `axum`) and of tonic (`grpc`)
/// among them, have a copy only where they are known to be empty; what a
/// connection brings in (hyper's `Incoming`, feature `hyper`) has none.
///
/// # Examples
///
/// A body of one's own that lies in memory:
///
/// ```
/// use steadfast::http::CopyBody;
///
/// #[derive(Clone)]
/// struct Rows(std::sync::Arc<[u64]>);
///
/// impl CopyBody for Rows {
///     fn copy(&self) -> Option<Self> {
///         Some(self.clone())
///     }
/// }
/// assert!(Rows([1, 2].into()).copy().is_some());
/// ```
pub trait CopyBody: Sized {
    /// A copy that, sent later, sends the same; `None` where there is none.
    fn copy(&self) -> Option<Self>;

    /// Whether this copy, not sent yet, can still be sent in whole, whatever
    /// became of the one that it was made of.
    ///
    /// # Default
    ///
    /// `true`: a clone stands on its own.
    fn is_intact(&self) -> bool {
        true
    }
}

/// A copy of the whole request, extensions included.
pub(crate) fn copy_request<B: CopyBody>(request: &Request<B>) -> Option<Request<B>> {
    let mut copy = Request::new(request.body().copy()?);
    request.method().clone_into(copy.method_mut());
    request.uri().clone_into(copy.uri_mut());
    *copy.version_mut() = request.version();
    request.headers().clone_into(copy.headers_mut());
    request.extensions().clone_into(copy.extensions_mut());
    Some(copy)
}

macro_rules! cloned {
    ($([$($generic:tt)*] $body:ty),* $(,)?) => {$(
        impl<$($generic)*> CopyBody for $body {
            fn copy(&self) -> Option<Self> {
                Some(self.clone())
            }
        }
    )*};
}

cloned!(
    [] (),
    [] Bytes,
    [] String,
    [] Vec<u8>,
    [] &'static str,
    [] &'static [u8],
    [D: Clone] Full<D>,
    [D] Empty<D>,
);

macro_rules! empty_only {
    ($($(#[$only:meta])* [$($generic:tt)*] $body:ty),* $(,)?) => {$(
        $(#[$only])*
        impl<$($generic)*> CopyBody for $body {
            fn copy(&self) -> Option<Self> {
                self.is_end_stream().then(Self::default)
            }
        }
    )*};
}

empty_only!(
    [D: Buf + 'static, E: 'static] BoxBody<D, E>,
    [D: Buf + 'static, E: 'static] UnsyncBoxBody<D, E>,
    #[cfg(feature = "axum")]
    [] axum_core::body::Body,
    #[cfg(feature = "grpc")]
    [] tonic::body::Body,
);

/// Sent once: what comes in from a connection can be read once, and a
/// [`ReplayBody`](super::ReplayBody) is what keeps it.
#[cfg(feature = "hyper")]
impl CopyBody for hyper::body::Incoming {
    fn copy(&self) -> Option<Self> {
        None
    }
}

impl<L: CopyBody, R: CopyBody> CopyBody for Either<L, R> {
    fn copy(&self) -> Option<Self> {
        match self {
            Self::Left(body) => body.copy().map(Self::Left),
            Self::Right(body) => body.copy().map(Self::Right),
        }
    }

    fn is_intact(&self) -> bool {
        match self {
            Self::Left(body) => body.is_intact(),
            Self::Right(body) => body.is_intact(),
        }
    }
}

impl<B: CopyBody> CopyBody for Option<B> {
    fn copy(&self) -> Option<Self> {
        match self {
            None => Some(None),
            Some(body) => body.copy().map(Some),
        }
    }

    fn is_intact(&self) -> bool {
        self.as_ref().is_none_or(B::is_intact)
    }
}
