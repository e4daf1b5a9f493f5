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

#[cfg(test)]
mod tests {
    use super::super::node::Kind;
    use super::super::table::enrol;
    use super::*;

    #[test]
    fn a_scope_joins_the_cap_around_it_once_for_each_that_comes_to_be_around() {
        let (own, first, second) = (
            enrol(Kind::cap(1)),
            enrol(Kind::cap(2)),
            enrol(Kind::cap(3)),
        );
        let mut held = HeldCap::of(Some(own.id()));
        assert_eq!(held.within(own.id(), own.id()), own.id());
        for around in [&first, &second] {
            let both = held.within(own.id(), around.id());
            assert_eq!(held.within(own.id(), around.id()), both, "at the next poll");
            let node = found(both).unwrap();
            assert!(node.includes(own.id()) && node.includes(around.id()));
        }
        assert!(
            !found(held.within(own.id(), second.id()))
                .unwrap()
                .includes(first.id())
        );
        // Within one that includes it already there is nothing to join.
        let joined = joined(&own, &first);
        assert_eq!(held.within(own.id(), joined.id()), joined.id());
        drop(second);
    }
}
