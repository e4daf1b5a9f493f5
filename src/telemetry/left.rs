//! Who observed the call whose report was left, for the stages around it.
//!
//! A fallback has no observers of its own: what it does is part of the call
//! whose primary failed, and is told to those who observe that.

use std::cell::{Cell, RefCell};

use super::observer::Observers;

thread_local! {
    // Apart from the observers, so that those without read a plain flag.
    static IS_LEFT: Cell<bool> = const { Cell::new(false) };
    static LEFT: RefCell<Observers> = const { RefCell::new(Observers::NONE) };
}

/// Goes with each report that is left, and takes the place of those of the one
/// before.
#[inline]
pub(crate) fn leave_observers(observers: &Observers) {
    if observers.listen() || IS_LEFT.get() {
        replace(observers.clone());
    }
}

/// Those who observed the call that left the last report.
pub(crate) fn take_observers() -> Observers {
    if IS_LEFT.get() {
        replace(Observers::NONE)
    } else {
        Observers::NONE
    }
}

#[cold]
fn replace(observers: Observers) -> Observers {
    IS_LEFT.set(observers.listen());
    // A thread that is ending has nobody left to tell.
    LEFT.try_with(|left| left.replace(observers))
        .unwrap_or_default()
}
