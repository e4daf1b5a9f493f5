//! An attempt's side of a cap.

use std::sync::Arc;

use super::node::{Kind, Node};
use super::table::{CapId, enrol, found};
use crate::scope::ambient::Ambient;

/// A send that an attempt has paid for, until it is over.
#[derive(Debug)]
pub(crate) struct Paid {
    node: Arc<Node>,
    outer: CapId,
}

/// There is no room for another send.
#[derive(Debug)]
pub(crate) struct Exhausted;

/// Pays for a send, where a cap is in scope. To be called just before the
/// request is handed over, and [`Paid::enter`] for as long as it is under way.
#[inline]
pub(crate) fn pay() -> Result<Option<Paid>, Exhausted> {
    match Ambient::current().cap {
        None => Ok(None),
        Some(id) => pay_at(id).map(Some),
    }
}

#[cold]
fn pay_at(outer: CapId) -> Result<Paid, Exhausted> {
    // One that nobody holds any more: the scope is over.
    let cap = found(outer).ok_or(Exhausted)?;
    if !cap.take() {
        return Err(Exhausted);
    }
    let node = enrol(Kind::attempt(cap));
    Ok(Paid { node, outer })
}

impl Paid {
    /// What is polled from here on is below this attempt.
    pub(crate) fn enter(&self) {
        Ambient::set_cap(self.node.id());
    }

    /// The attempt is over; the scope is again what it was.
    pub(crate) fn leave(self) {
        Ambient::set_cap(self.outer);
    }
}

impl Drop for Paid {
    fn drop(&mut self) {
        self.node.finish();
    }
}

/// Whether another send would find room.
#[cold]
pub(crate) fn has_room(id: CapId) -> bool {
    found(id).is_some_and(|cap| cap.room() > 0)
}

/// A stack begins a call within this scope.
#[cold]
pub(crate) fn note_stack(id: CapId) {
    if let Some(cap) = found(id) {
        cap.note_stack();
    }
}
