//! Errors as answers of axum's handlers.

use axum_core::response::{IntoResponse, Response};

use crate::error::Error;
use crate::http::Problem;
use crate::refusal::Refusal;

/// As [`Problem`] tells it; feature `axum`. A handler of axum may then fail
/// with it.
///
/// The handler's request is not known here, so the operation gets a random
/// name. Where the caller's is wanted, answer with a [`Problem`], or put an
/// [`AnswerErrorsLayer`](crate::http::AnswerErrorsLayer) around.
///
/// # Examples
///
/// ```
/// use steadfast::Policy;
///
/// async fn stock(policy: Policy) -> Result<String, steadfast::Error> {
///     policy.call(|| async { Ok::<_, std::io::Error>(String::from("17")) }).await
/// }
/// # let policy = Policy::builder("inventory").build().unwrap();
/// let app: axum::Router = axum::Router::new()
///     .route("/stock", axum::routing::get(move || stock(policy.clone())));
/// ```
impl IntoResponse for Error {
    fn into_response(self) -> Response {
        Problem::from(&self).into_response()
    }
}

/// As [`Problem`] tells it; feature `axum`.
impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        Problem::from(&self).into_response()
    }
}

/// Feature `axum`.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        Self::into_response(self)
    }
}
