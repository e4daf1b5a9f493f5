//! The amplification formula against every possible script of outcomes, and what is measured against
//! the formula.

use super::outage::amplification::{Amplification, PUBLISHED, expected};
use super::plain::at_least_one;

/// Mean sends per request by trying every possible script of outcomes: bit `i` of a script says
/// whether attempt `i` fails, and each script weighs as much as it is probable.
fn by_brute_force(f: f64, retries: &[u32]) -> f64 {
    let longest: u32 = retries.iter().map(|retries| retries + 1).product();
    let weighed = |script: u32| {
        let fails = script.count_ones() as i32;
        let weight = f.powi(fails) * (1.0 - f).powi(longest as i32 - fails);
        let mut used = 0;
        request(script, &mut used, retries);
        weight * f64::from(used)
    };
    (0..1 << longest).map(weighed).sum()
}

fn request(script: u32, used: &mut u32, layers: &[u32]) -> bool {
    let Some((outermost, below)) = layers.split_last() else {
        let fails = script >> *used & 1 == 1;
        *used += 1;
        return !fails;
    };
    for _ in 0..=*outermost {
        if request(script, used, below) {
            return true;
        }
    }
    false
}

#[test]
fn the_amplification_formula_agrees_with_trying_every_script() {
    for retries in [
        &[0][..],
        &[2],
        &[5],
        &[1, 2],
        &[2, 1],
        &[0, 3, 1],
        &[1, 1, 2],
        &[3, 2],
    ] {
        for f in [0.0, 0.05, 0.2, 0.5, 0.77, 0.9, 0.99, 1.0] {
            let (formula, counted) = (expected(f, retries), by_brute_force(f, retries));
            assert!(
                (formula - counted).abs() < 1e-9,
                "{f} {retries:?}: {formula}, {counted}"
            );
        }
    }
}

#[test]
fn plain_loops_measure_what_the_formula_says_and_stacks_send_like_one_layer() {
    let inputs = Amplification {
        f: vec![0.0, 0.3, 0.8, 1.0],
        retries: vec![vec![1, 2], vec![2, 0, 1], vec![4]],
        precision: 0.03,
        requests: at_least_one(1_000),
    };
    let rows = inputs.measure(7).unwrap();
    assert_eq!(rows.len(), 12);
    for row in rows {
        let off = (row.measured / by_brute_force(row.f, &row.retries) - 1.0).abs();
        assert!(off <= 0.03, "{row:?}");
        let innermost = row.retries[0];
        let off = (row.nested_steadfast / by_brute_force(row.f, &[innermost]) - 1.0).abs();
        assert!(off <= 0.03, "{row:?}");
        let most = if row.f == 0.0 {
            1
        } else {
            u64::from(innermost) + 1
        };
        assert_eq!(row.nested_max, most, "{row:?}");
    }
}

#[test]
fn a_dead_dependency_is_amplified_by_the_whole_product() {
    let inputs = Amplification {
        f: vec![1.0],
        retries: vec![vec![1, 4, 2]],
        precision: 0.01,
        requests: at_least_one(100),
    };
    let row = &inputs.measure(1).unwrap()[0];
    assert_eq!((row.expected, row.measured), (30.0, 30.0));
    assert_eq!((row.nested_steadfast, row.nested_max), (2.0, 2));
}

#[test]
fn the_published_rows_are_all_there() {
    let rows = Amplification {
        precision: 0.2,
        requests: at_least_one(100),
        ..Amplification::default()
    }
    .measure(1)
    .unwrap();
    let rows: Vec<(f64, &[u32])> = rows
        .iter()
        .map(|row| (row.f, row.retries.as_slice()))
        .collect();
    for f in [0.1, 0.5, 0.9, 0.99, 1.0] {
        assert!(rows.contains(&(f, &[3, 3, 3])));
        assert!(rows.contains(&(f, &[2, 3, 3])));
    }
    assert!(rows.contains(&(1.0, &[2, 2, 2])));
    assert!(rows.contains(&(0.2, &[2])));
    assert_eq!(rows.len(), 12);
    for (f, retries, reference) in PUBLISHED {
        let off = expected(f, retries) - reference.parse::<f64>().unwrap();
        assert!(off.abs() <= 0.005, "{f} {retries:?}: {reference}");
    }
}

#[test]
fn another_seed_measures_other_figures_and_the_same_seed_the_same() {
    let inputs = Amplification {
        f: vec![0.5],
        retries: vec![vec![2, 2]],
        precision: 0.2,
        requests: at_least_one(1_000),
    };
    let measured = |seed| inputs.measure(seed).unwrap()[0].measured;
    assert_eq!(measured(1).to_bits(), measured(1).to_bits());
    assert_ne!(measured(1).to_bits(), measured(2).to_bits());
}
