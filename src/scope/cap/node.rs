//! What is counted, and where it is paid.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::table::{self, CapId};

/// A cap, or what stands for one inside of it. Registered under its id as long
/// as somebody holds it.
#[derive(Debug)]
pub(crate) struct Node {
    id: CapId,
    kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    /// A ceiling. Relaxed: the count guards nothing but itself.
    Cap { most: u32, taken: AtomicU32 },
    /// Two scopes, one polled inside of the other: both hold.
    Both(Arc<Node>, Arc<Node>),
    /// An attempt under way that has paid for a send. The first attempt of a
    /// stack below it makes that send, and need not pay again.
    ///
    /// Sequentially consistent: a stack below says so before it takes what was
    /// paid, and the attempt that ends takes it before it asks whether there
    /// was a stack. So a payment is neither used twice nor lost.
    Attempt {
        outer: Arc<Node>,
        paid: AtomicBool,
        stack_below: AtomicBool,
    },
}

impl Kind {
    pub(super) const fn cap(most: u32) -> Self {
        let taken = AtomicU32::new(0);
        Self::Cap { most, taken }
    }

    pub(super) const fn attempt(outer: Arc<Node>) -> Self {
        Self::Attempt {
            outer,
            paid: AtomicBool::new(true),
            stack_below: AtomicBool::new(false),
        }
    }
}

impl Node {
    pub(super) const fn new(id: CapId, kind: Kind) -> Self {
        Self { id, kind }
    }

    pub(crate) const fn id(&self) -> CapId {
        self.id
    }

    /// Pays for one send, if there is room for it.
    pub(super) fn take(&self) -> bool {
        match &self.kind {
            Kind::Cap { most, taken } => {
                let more = |taken: u32| (taken < *most).then_some(taken + 1);
                taken
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
                    .is_ok()
            }
            Kind::Both(one, other) => {
                if !one.take() {
                    return false;
                }
                let both = other.take();
                if !both {
                    one.give_back();
                }
                both
            }
            Kind::Attempt { outer, paid, .. } => paid.swap(false, Ordering::SeqCst) || outer.take(),
        }
    }

    /// Takes back what was paid for a send that was not made.
    pub(super) fn give_back(&self) {
        match &self.kind {
            Kind::Cap { taken, .. } => {
                taken.fetch_sub(1, Ordering::Relaxed);
            }
            Kind::Both(one, other) => {
                one.give_back();
                other.give_back();
            }
            Kind::Attempt { outer, .. } => outer.give_back(),
        }
    }

    /// A stack below has begun a call.
    pub(super) fn note_stack(&self) {
        match &self.kind {
            Kind::Cap { .. } => {}
            Kind::Both(one, other) => {
                one.note_stack();
                other.note_stack();
            }
            Kind::Attempt { stack_below, .. } => stack_below.store(true, Ordering::SeqCst),
        }
    }

    /// The attempt is over. What a stack below was to send and did not is given
    /// back; without a stack the service itself was sent to.
    pub(super) fn finish(&self) {
        if let Kind::Attempt {
            outer,
            paid,
            stack_below,
        } = &self.kind
        {
            if paid.swap(false, Ordering::SeqCst) && stack_below.load(Ordering::SeqCst) {
                outer.give_back();
            }
        }
    }

    /// How many more sends there is room for.
    pub(super) fn room(&self) -> u32 {
        match &self.kind {
            Kind::Cap { most, taken } => most.saturating_sub(taken.load(Ordering::Relaxed)),
            Kind::Both(one, other) => one.room().min(other.room()),
            Kind::Attempt { outer, paid, .. } => {
                let paid = u32::from(paid.load(Ordering::SeqCst));
                outer.room().saturating_add(paid)
            }
        }
    }

    pub(super) fn taken(&self) -> u32 {
        match &self.kind {
            Kind::Cap { taken, .. } => taken.load(Ordering::Relaxed),
            Kind::Both(one, _) => one.taken(),
            Kind::Attempt { outer, .. } => outer.taken(),
        }
    }

    /// Whether this one pays at that one too.
    pub(super) fn includes(&self, id: CapId) -> bool {
        self.id == id
            || match &self.kind {
                Kind::Cap { .. } => false,
                Kind::Both(one, other) => one.includes(id) || other.includes(id),
                Kind::Attempt { outer, .. } => outer.includes(id),
            }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        table::strike(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{enrol, joined};
    use super::*;

    fn sends(node: &Node) -> u32 {
        let mut sends = 0;
        while node.take() {
            sends += 1;
        }
        sends
    }

    #[test]
    fn a_ceiling_is_exact_and_what_is_given_back_can_be_taken_again() {
        let cap = enrol(Kind::cap(3));
        assert_eq!((sends(&cap), cap.room()), (3, 0));
        cap.give_back();
        assert_eq!((cap.room(), sends(&cap), cap.taken()), (1, 1, 3));
    }

    #[test]
    fn of_two_ceilings_the_lower_holds_and_the_other_is_not_charged_in_vain() {
        let (low, high) = (enrol(Kind::cap(2)), enrol(Kind::cap(5)));
        for both in [joined(&low, &high), joined(&high, &low)] {
            let before = high.taken();
            let sent = sends(&both);
            assert_eq!(high.taken() - before, sent);
            assert_eq!(both.room(), 0);
        }
        assert_eq!((low.taken(), high.taken()), (2, 2));
    }

    #[test]
    fn an_attempt_pays_once_for_itself_and_the_first_one_below() {
        let cap = enrol(Kind::cap(3));
        assert!(cap.take());
        let outer = enrol(Kind::attempt(Arc::clone(&cap)));
        outer.note_stack();
        assert!(outer.take());
        assert_eq!(cap.taken(), 1, "the same send");
        // A middle stack, whose own attempt is the one below it.
        let middle = enrol(Kind::attempt(Arc::clone(&outer)));
        middle.note_stack();
        assert!(middle.take());
        assert_eq!(cap.taken(), 1, "the same send still");
        assert!(middle.take());
        assert_eq!(cap.taken(), 2, "a retry is another");
        middle.finish();
        outer.finish();
        assert_eq!(cap.taken(), 2);
    }

    #[test]
    fn what_no_stack_below_has_sent_is_given_back_and_what_the_service_has_is_not() {
        let cap = enrol(Kind::cap(3));
        for (below, taken) in [(true, 0), (false, 1)] {
            assert!(cap.take());
            let attempt = enrol(Kind::attempt(Arc::clone(&cap)));
            if below {
                attempt.note_stack();
            }
            attempt.finish();
            attempt.finish();
            assert_eq!(cap.taken(), taken);
        }
    }

    #[test]
    fn an_attempt_that_is_over_lends_nothing() {
        let cap = enrol(Kind::cap(3));
        assert!(cap.take());
        let attempt = enrol(Kind::attempt(Arc::clone(&cap)));
        attempt.finish();
        assert!(attempt.take());
        assert_eq!(cap.taken(), 2);
    }
}
