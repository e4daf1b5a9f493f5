//! Caps by number.
//!
//! What is ambient is `Copy`, so that entering a scope costs two moves and no
//! reference count. So it has the number of a cap, and those who need the cap
//! itself look here: only within a capped scope, once per attempt.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::node::{Kind, Node};

/// The number of a cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CapId(NonZeroU32);

type Part = Mutex<BTreeMap<CapId, Weak<Node>>>;

/// In parts, so that threads seldom meet.
const PARTS: usize = 16;

static TABLE: [Part; PARTS] = [const { Mutex::new(BTreeMap::new()) }; PARTS];

static NEXT: AtomicU32 = AtomicU32::new(1);

fn part(id: CapId) -> MutexGuard<'static, BTreeMap<CapId, Weak<Node>>> {
    let part = &TABLE[id.0.get() as usize % PARTS];
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Enters a cap under a number of its own.
pub(super) fn enrol(kind: Kind) -> Arc<Node> {
    loop {
        // Four billion further on they come round; what is in use is left out.
        let Some(number) = NonZeroU32::new(NEXT.fetch_add(1, Ordering::Relaxed)) else {
            continue;
        };
        let id = CapId(number);
        let mut part = part(id);
        if let std::collections::btree_map::Entry::Vacant(free) = part.entry(id) {
            let node = Arc::new(Node::new(id, kind));
            free.insert(Arc::downgrade(&node));
            return node;
        }
    }
}

/// The cap of this number, if anybody holds it still.
pub(super) fn found(id: CapId) -> Option<Arc<Node>> {
    part(id).get(&id).and_then(Weak::upgrade)
}

/// Both of two caps.
pub(super) fn joined(one: &Arc<Node>, other: &Arc<Node>) -> Arc<Node> {
    enrol(Kind::Both(Arc::clone(one), Arc::clone(other)))
}

/// Takes a cap out that nobody holds any more.
pub(super) fn strike(id: CapId) {
    let gone = part(id).remove(&id);
    drop(gone);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cap_is_found_for_as_long_as_somebody_holds_it_and_then_leaves_the_table() {
        // More than there are parts, and of each part several.
        let caps: Vec<_> = (0..20 * PARTS).map(|_| enrol(Kind::cap(1))).collect();
        let ids: Vec<CapId> = caps.iter().map(|cap| cap.id()).collect();
        for (cap, id) in caps.iter().zip(&ids) {
            assert!(found(*id).is_some_and(|found| Arc::ptr_eq(&found, cap)));
        }
        drop(caps);
        for id in ids {
            assert!(found(id).is_none());
            assert!(!part(id).contains_key(&id), "the table grows with each cap");
        }
    }
}
