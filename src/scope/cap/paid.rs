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
/// request is handed over; what is polled from here on is below this attempt, in
/// later polls of it as well.
#[inline]
pub(crate) fn pay(paid: &mut Option<Paid>) -> Result<(), Exhausted> {
    match Ambient::cap_here() {
        None => Ok(()),
        Some(id) => pay_at(id, paid),
    }
}

#[cold]
#[inline(never)]
fn pay_at(outer: CapId, paid: &mut Option<Paid>) -> Result<(), Exhausted> {
    // One that nobody holds any more: the scope is over.
    let cap = found(outer).ok_or(Exhausted)?;
    if !cap.take() {
        return Err(Exhausted);
    }
    let node = enrol(Kind::attempt(cap));
    Ambient::set_cap(node.id());
    *paid = Some(Paid { node, outer });
    Ok(())
}

/// The attempt is over; the scope is again what it was.
#[cold]
#[inline(never)]
pub(crate) fn leave(paid: &mut Option<Paid>) {
    if let Some(paid) = paid.take() {
        Ambient::set_cap(paid.outer);
    }
}

impl Drop for Paid {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        self.node.finish();
    }
}

/// Whether another send would find room.
#[cold]
pub(crate) fn has_room(id: CapId) -> bool {
    found(id).is_some_and(|cap| cap.room() > 0)
}

/// A stack begins a call here.
#[cold]
#[inline(never)]
pub(crate) fn note_stack() {
    if let Some(cap) = Ambient::cap_here().and_then(found) {
        cap.note_stack();
    }
}
