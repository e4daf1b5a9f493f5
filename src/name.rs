//! Names of dependencies, kept for the life of the process.
//!
//! A name stands in every error and event. As `&'static str` it is copied
//! without a reference count, which matters most where it is least expected:
//! a thousand refusals per second from two threads would otherwise fight over
//! the count of one shared string.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

static NAMES: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);

/// The one copy of `name`. A name made at run time is leaked once, however
/// often it is asked for.
pub(crate) fn intern(name: Cow<'static, str>) -> &'static str {
    let name = match name {
        Cow::Borrowed(name) => return name,
        Cow::Owned(name) => name,
    };
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let names = names.get_or_insert_default();
    if let Some(known) = names.get(name.as_str()) {
        return known;
    }
    let leaked: &'static str = Box::leak(name.into_boxed_str());
    names.insert(leaked);
    leaked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_leaked_once() {
        let first = intern(Cow::Owned(String::from("interned twice")));
        let second = intern(Cow::Owned(String::from("interned twice")));
        assert!(std::ptr::eq(first, second));
    }
}
