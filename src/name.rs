//! Names of dependencies, kept for the life of the process.
//!
//! A name stands in every error and event. As a static one it is copied
//! without a reference count, which matters most where it is least expected:
//! a thousand refusals per second from two threads would otherwise fight over
//! the count of one shared string.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// A text that lives as long as the process, in one word instead of two, so
/// that a refusal, and with it every error, stays small.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name(&'static &'static str);

static NAMES: Mutex<Option<HashMap<&'static str, Name>>> = Mutex::new(None);

impl Name {
    /// The one copy of `name`. A name made at run time is leaked once, however
    /// often it is asked for.
    pub(crate) fn new(name: Cow<'static, str>) -> Self {
        let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        let names = names.get_or_insert_default();
        if let Some(known) = names.get(&*name) {
            return *known;
        }
        let text: &'static str = match name {
            Cow::Borrowed(name) => name,
            Cow::Owned(name) => Box::leak(name.into_boxed_str()),
        };
        let name = Self(Box::leak(Box::new(text)));
        names.insert(text, name);
        name
    }

    pub(crate) const fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_once() {
        let first = Name::new(Cow::Owned(String::from("interned twice")));
        let second = Name::new(Cow::Borrowed("interned twice"));
        assert!(std::ptr::eq(first.0, second.0));
        assert_eq!(second.as_str(), "interned twice");
    }
}
