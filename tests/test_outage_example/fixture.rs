//! How long the fixture is open, by hand.

use std::time::Duration;

use super::outage::fixture::Fixture;
use super::plain::at_least_one;

#[test]
fn the_fixture_is_open_until_its_time_has_passed_since_the_last_failure() {
    for (threshold, spacing, cooldown, callers) in [
        (3, 1_000, 30_000, 50),
        (1, 1_000, 30_000, 7),
        (6, 250, 4_001, 2),
        (2, 0, 1, 1),
    ] {
        let inputs = Fixture {
            threshold: at_least_one(threshold),
            spacing: Duration::from_millis(spacing),
            cooldown: Duration::from_millis(cooldown),
            callers: at_least_one(callers),
        };
        let figures = inputs.measure().unwrap();
        let open_until = u64::from(threshold - 1) * spacing + cooldown;
        let found = (figures.open_until_seconds * 1_000.0).round() as u64;
        assert_eq!(found, open_until, "{inputs:?}");
        assert_eq!(figures.probes, 1, "{inputs:?}");
    }
}
