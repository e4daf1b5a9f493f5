//! How many failures in a row.

use crate::sync::{AtomicU64, Ordering};

/// The generation in the upper half, the length of the run in the lower, so
/// that an outcome of another generation is seen in the same step that would
/// count it.
///
/// All accesses are relaxed: the word carries everything that depends on it.
/// All writes read what they replace, a period's beginning too, so that they
/// stand in one order for everyone.
#[derive(Debug)]
pub(super) struct Run(AtomicU64);

const fn pack(generation: u32, length: u32) -> u64 {
    (generation as u64) << 32 | length as u64
}

#[expect(clippy::cast_possible_truncation, reason = "takes the word apart")]
const fn unpack(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

impl Run {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub(super) fn begin(&self, generation: u32) {
        self.0.swap(pack(generation, 0), Ordering::Relaxed);
    }

    /// Whether nothing has failed since the last success.
    #[inline]
    pub(super) fn is_clear(&self) -> bool {
        let (_, length) = unpack(self.0.load(Ordering::Relaxed));
        length == 0
    }

    /// Only reads while nothing has failed since the last success.
    pub(super) fn success(&self, generation: u32) {
        let mut word = self.0.load(Ordering::Relaxed);
        while let (current, 1..) = unpack(word) {
            if current != generation {
                return;
            }
            match self.swap(word, pack(generation, 0)) {
                Ok(()) => return,
                Err(changed) => word = changed,
            }
        }
    }

    /// The length of the run, this failure included; 0 if it belongs to
    /// another generation.
    pub(super) fn failure(&self, generation: u32) -> u32 {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let (current, length) = unpack(word);
            if current != generation {
                return 0;
            }
            let longer = length.saturating_add(1);
            match self.swap(word, pack(generation, longer)) {
                Ok(()) => return longer,
                Err(changed) => word = changed,
            }
        }
    }

    /// The length of the run; 0 if it belongs to another generation.
    pub(super) fn length(&self, generation: u32) -> u32 {
        let (current, length) = unpack(self.0.load(Ordering::Relaxed));
        if current == generation { length } else { 0 }
    }

    fn swap(&self, from: u64, to: u64) -> Result<(), u64> {
        self.0
            .compare_exchange_weak(from, to, Ordering::Relaxed, Ordering::Relaxed)
            .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_a_length_in_its_own_period_only() {
        let run = Run::new();
        run.begin(3);
        assert!(run.is_clear());
        assert_eq!((run.failure(3), run.failure(3), run.failure(2)), (1, 2, 0));
        assert_eq!((run.length(3), run.length(2), run.length(4)), (2, 0, 0));
        run.success(2);
        assert_eq!((run.length(3), run.is_clear()), (2, false));
        run.success(3);
        assert_eq!((run.length(3), run.is_clear()), (0, true));
    }
}
