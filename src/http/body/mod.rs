//! Bodies of requests that are sent again, and a look at those of errors.

mod bell;
mod copy;
mod layer;
mod log;
mod replay;

pub use copy::CopyBody;
pub(crate) use copy::copy_request;
pub use layer::{ReplayLayer, ReplayService};
pub use replay::{ReplayBody, ReplayError};
