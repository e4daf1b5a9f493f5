//! The error of a copy that another has spoilt.

use std::error::Error as StdError;
use std::fmt;

use super::log::Broken;

/// A copy of a [`ReplayBody`](super::ReplayBody) cannot be read to its end.
#[derive(Clone, Copy, Debug)]
pub struct ReplayError {
    broken: Broken,
}

impl ReplayError {
    pub(super) const fn new(broken: Broken) -> Self {
        Self { broken }
    }

    /// Whether more was read by another attempt than the cap allows to keep;
    /// otherwise the body failed while another attempt read it.
    #[must_use]
    pub fn is_outgrown(&self) -> bool {
        self.broken == Broken::Outgrown
    }
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.broken {
            Broken::Outgrown => "the request body has outgrown its buffer in another attempt",
            Broken::Failed => "the request body failed in another attempt",
        })
    }
}

impl StdError for ReplayError {}
