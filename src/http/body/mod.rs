//! Bodies of requests that are sent again, and a look at those of errors.

mod bell;
mod copy;
mod error_body;
mod layer;
mod log;
mod look;
mod looked;
mod replay;
mod replay_error;
mod share;

pub use copy::CopyBody;
pub(crate) use copy::copy_request;
pub use error_body::ErrorBody;
pub use layer::{ReplayLayer, ReplayService};
pub use look::{LookFuture, LookLayer, LookService};
pub use looked::Looked;
pub use replay::ReplayBody;
pub use replay_error::ReplayError;
