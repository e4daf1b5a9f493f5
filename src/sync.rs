//! Where the parts that threads share get their atomics and locks from.
//!
//! The standard library's, except in the models that check the interleavings
//! (`cfg(steadfast_loom)`): there they are loom's, which tries out the orders
//! in which threads can run and the values that a relaxed load may see. The
//! code on top is the same in both.
//!
//! Only what the models look into comes from here: the breaker's core and
//! windows, and the retry budget.

#[cfg(all(test, steadfast_loom))]
pub(crate) mod model;

#[cfg(all(test, steadfast_loom))]
mod source {
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
    pub(crate) use loom::sync::{Mutex, MutexGuard};

    pub(crate) use super::model::{OnceLock, this_thread};
}

#[cfg(not(all(test, steadfast_loom)))]
mod source {
    pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
    pub(crate) use std::sync::{Mutex, MutexGuard, OnceLock};

    pub(crate) use crate::sharded::this_thread;
}

pub(crate) use source::this_thread;
pub(crate) use source::{AtomicU32, AtomicU64, Mutex, MutexGuard, OnceLock, Ordering, fence};
