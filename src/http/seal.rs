//! The mark of an answer with which a stack gave up.

use crate::error::Stopped;

/// Stands in the extensions of an answer with which a stack further down ended
/// its retries: a stack further out adds none.
///
/// A service that passes the answer on to another process says so in a header;
/// extensions do not travel.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use steadfast::{Policy, ServiceBuilderExt, http::{HttpClassifier, Sealed}};
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// let policy = Policy::builder("inventory")
///     .max_attempts(2)
///     .classify(HttpClassifier::new())
///     .build()
///     .unwrap();
/// let client = ServiceBuilder::new().resilience(policy).service(service_fn(
///     |_: http::Request<()>| async {
///         let mut answer = http::Response::new(());
///         *answer.status_mut() = http::StatusCode::BAD_GATEWAY;
///         Ok::<_, std::io::Error>(answer)
///     },
/// ));
/// let answer = client.oneshot(http::Request::new(())).await.unwrap();
/// let sealed = answer.extensions().get::<Sealed>().unwrap();
/// assert_eq!(sealed.stopped().as_str(), "attempts_exhausted");
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed {
    stopped: Stopped,
}

impl Sealed {
    pub(crate) const fn new(stopped: Stopped) -> Self {
        Self { stopped }
    }

    /// Why there was no further attempt.
    #[must_use]
    pub const fn stopped(&self) -> Stopped {
        self.stopped
    }
}
