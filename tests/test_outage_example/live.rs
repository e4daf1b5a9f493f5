//! A short outage in real time: what must hold on any machine.

use std::time::Duration;

use super::outage::live::Live;

#[test]
fn a_killed_server_is_stood_in_for_and_found_again() {
    let inputs = Live {
        warm_up: Duration::from_millis(200),
        outage: Duration::from_millis(500),
        open_time: Duration::from_millis(150),
        ..Live::default()
    };
    let figures = inputs.measure(1).unwrap();
    assert!(figures.refused > 0, "{figures:?}");
    // The requests whose failures open the breaker are served as well.
    assert!(figures.served_by_fallback > figures.refused, "{figures:?}");
    assert!(figures.served_by_fallback < figures.requests, "{figures:?}");
    assert_eq!(figures.failed, 0, "{figures:?}");
    // The failures that open the breaker and a probe per open time, with room for those under way.
    assert!(
        (5..100).contains(&figures.sends_during_outage),
        "{figures:?}"
    );
}
