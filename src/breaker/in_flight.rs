//! How many calls may be under way at once.

use crate::sync::{AtomicU32, Ordering};

/// Counted only while there is a limit, so that those who have none do not
/// share a counter. A call remembers whether it was counted: the limit may
/// come or go while it runs.
///
/// All accesses are relaxed: the count guards nothing but itself.
#[derive(Debug)]
pub(super) struct InFlight {
    /// Zero for none.
    limit: AtomicU32,
    calls: AtomicU32,
}

impl InFlight {
    pub(super) fn new(limit: Option<u32>) -> Self {
        Self {
            limit: AtomicU32::new(limit.unwrap_or(0)),
            calls: AtomicU32::new(0),
        }
    }

    pub(super) fn set_limit(&self, limit: Option<u32>) {
        self.limit.store(limit.unwrap_or(0), Ordering::Relaxed);
    }

    pub(super) fn is_limited(&self) -> bool {
        self.limit.load(Ordering::Relaxed) != 0
    }

    pub(super) fn now(&self) -> u32 {
        self.calls.load(Ordering::Relaxed)
    }

    /// During a recovery the limit is its share, but at least one call.
    pub(super) fn has_room(&self, share: f64) -> bool {
        match self.limit(share) {
            None => true,
            Some(limit) => self.now() < limit,
        }
    }

    /// Takes a place: `Some(true)` if it was counted, `Some(false)` if there
    /// is no limit, `None` if all are taken.
    pub(super) fn enter(&self, share: f64) -> Option<bool> {
        let Some(limit) = self.limit(share) else {
            return Some(false);
        };
        let mut calls = self.calls.load(Ordering::Relaxed);
        while calls < limit {
            match self.calls.compare_exchange_weak(
                calls,
                calls + 1,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(true),
                Err(changed) => calls = changed,
            }
        }
        None
    }

    pub(super) fn leave(&self, placed: bool) {
        if placed {
            self.calls.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn limit(&self, share: f64) -> Option<u32> {
        match self.limit.load(Ordering::Relaxed) {
            0 => None,
            limit => {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a share of a u32"
                )]
                let shared = (f64::from(limit) * share) as u32;
                Some(shared.max(1))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_exact_and_shrinks_with_the_share() {
        let calls = InFlight::new(Some(10));
        for _ in 0..3 {
            assert_eq!(calls.enter(0.35), Some(true));
        }
        assert_eq!(calls.enter(0.35), None);
        assert!(!calls.has_room(0.35));
        assert_eq!(calls.enter(1.0), Some(true));
        calls.leave(true);
        assert_eq!(calls.now(), 3);
        assert_eq!(InFlight::new(Some(10)).enter(0.0), Some(true));
    }

    #[test]
    fn a_limit_that_comes_and_goes_keeps_the_count() {
        let calls = InFlight::new(None);
        let uncounted = calls.enter(1.0).unwrap();
        calls.set_limit(Some(1));
        let counted = calls.enter(1.0).unwrap();
        calls.leave(uncounted);
        assert_eq!(calls.enter(1.0), None);
        calls.set_limit(None);
        calls.leave(counted);
        assert_eq!(calls.now(), 0);
    }
}
