//! An error for scripts.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

/// The error of [`Step::fail`](super::Step::fail): a message and no more.
///
/// Classifiers that look for a client's own errors do not know it. To see what
/// yours makes of a refused connection, script that very error with
/// [`Step::respond`](super::Step::respond).
///
/// # Examples
///
/// ```
/// use steadfast::test_util::ScriptedError;
///
/// assert_eq!(ScriptedError::new("connection reset").to_string(), "connection reset");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptedError {
    message: Cow<'static, str>,
}

impl ScriptedError {
    /// An error that displays as this.
    #[must_use]
    pub fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            message: message.into(),
        }
    }
}

impl fmt::Display for ScriptedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for ScriptedError {}
