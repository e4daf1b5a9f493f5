//! A scope's side of a cap.

use std::sync::Arc;

use super::node::Node;
use super::table::{CapId, found, joined};

/// Keeps a scope's cap alive while the scope is around a future.
#[derive(Debug)]
pub(crate) struct HeldCap {
    own: Option<Arc<Node>>,
    /// With the one around it where it was last polled, and that one's number.
    both: Option<(CapId, Arc<Node>)>,
}

impl HeldCap {
    pub(crate) fn of(cap: Option<CapId>) -> Self {
        Self {
            own: cap.and_then(found),
            both: None,
        }
    }

    /// What holds for this scope where another is around it.
    pub(crate) fn within(&mut self, own: CapId, around: CapId) -> CapId {
        if own == around {
            return own;
        }
        match &self.both {
            Some((last, both)) if *last == around => both.id(),
            _ => self.join(own, around),
        }
    }

    #[cold]
    fn join(&mut self, own: CapId, around: CapId) -> CapId {
        let (Some(held), Some(outer)) = (&self.own, found(around)) else {
            // One of them is over, which nothing passes.
            return if self.own.is_none() { own } else { around };
        };
        let both = if outer.includes(own) {
            outer
        } else if held.includes(around) {
            Arc::clone(held)
        } else {
            joined(held, &outer)
        };
        let id = both.id();
        self.both = Some((around, both));
        id
    }
}
