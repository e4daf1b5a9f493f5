//! Random numbers, repeatable where a test asks for it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers of the thread's own generator, or of a sequence that a seed begins.
///
/// Boxed, since nearly nobody has a seed and there may be a breaker per key.
#[derive(Debug)]
pub(crate) struct Draws {
    seeded: Option<Box<AtomicU64>>,
}

impl Draws {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self {
            seeded: seed.map(|seed| Box::new(AtomicU64::new(seed))),
        }
    }

    /// Uniform over 0 up to, not including, 1.
    pub(crate) fn share(&self) -> f64 {
        let Some(counter) = &self.seeded else {
            return rand::random();
        };
        // As many bits as an `f64` holds.
        (split_mix(counter) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The next number of the `SplitMix64` sequence that `counter` stands in.
pub(crate) fn split_mix(counter: &AtomicU64) -> u64 {
    const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
    // Relaxed: each draw needs its own number and nothing else.
    let mut z = counter
        .fetch_add(GAMMA, Ordering::Relaxed)
        .wrapping_add(GAMMA);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeded_numbers_are_those_of_split_mix_64() {
        // The reference sequence for seed 1234567, as published with the algorithm's ports.
        let counter = AtomicU64::new(1_234_567);
        assert_eq!(split_mix(&counter), 6_457_827_717_110_365_317);
        assert_eq!(split_mix(&counter), 3_203_168_211_198_807_973);
    }

    #[test]
    fn equal_seeds_draw_alike_and_fill_zero_to_one() {
        let shares = |seed| -> Vec<f64> {
            let draws = Draws::new(seed);
            (0..1000).map(|_| draws.share()).collect()
        };
        let seeded = shares(Some(7));
        assert_eq!(seeded, shares(Some(7)));
        assert_ne!(seeded, shares(Some(8)));
        assert_ne!(shares(None), shares(None));
        assert!(seeded.iter().all(|share| (0.0..1.0).contains(share)));
        let mean = seeded.iter().sum::<f64>() / 1000.0;
        // A standard deviation of 0.009.
        assert!((0.46..0.54).contains(&mean), "{mean}");
    }
}
