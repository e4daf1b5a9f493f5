//! One breaker per key: looking a key's breaker up, and making room for a new
//! key, by number of keys. Both should be flat but for the caches.

mod support;

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput};
use steadfast::{BreakerConfig, Breakers};

use support::rules::outcome;

const KEYS: [u64; 3] = [10, 10_000, 1_000_000];

fn main() {
    support::run(&[registry]);
}

fn registry(c: &mut Criterion) {
    let mut group = c.benchmark_group("registry");
    group.throughput(Throughput::Elements(1));
    for keys in KEYS {
        let breakers = full(keys);
        let mut number = 0_u64;
        group.bench_function(BenchmarkId::new("known key", keys), |b| {
            b.iter(|| {
                number += 1;
                assert!(outcome(&breakers.get(&scattered(number, keys)), false));
            });
        });
        drop(breakers);

        // Another one: keys that have been asked for since are passed over
        // before one goes.
        let breakers = full(keys);
        // Above all known keys, each of them once.
        let mut newcomer = keys;
        group.bench_function(BenchmarkId::new("new key", keys), |b| {
            b.iter(|| {
                newcomer += 1;
                assert!(outcome(&breakers.get(&newcomer), false));
            });
        });
        assert_eq!(breakers.overflowed(), 0, "there was room for all");
    }
}

/// A registry with no room but for these keys.
fn full(keys: u64) -> Breakers<u64> {
    let most = usize::try_from(keys).expect("keys fit into memory");
    let config = BreakerConfig::default();
    let breakers = Breakers::bounded("keys", config, most, Duration::from_secs(600));
    let breakers = breakers.expect("valid settings");
    for key in 0..keys {
        assert!(outcome(&breakers.get(&key), false));
    }
    breakers
}

/// Keys in an order that no cache foresees.
fn scattered(number: u64, keys: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % keys
}
