//! Seeded randomness, one independent stream per purpose.

use rand::SeedableRng;
use rand::rngs::StdRng;

/// The stream of `seed` for `purpose`: the same for the same two, whatever else has drawn.
///
/// The first 24 bytes of `purpose` tell streams apart.
pub(crate) fn stream(seed: u64, purpose: &str) -> StdRng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    for (to, from) in key[8..].iter_mut().zip(purpose.bytes()) {
        *to = from;
    }
    StdRng::from_seed(key)
}
