//! For how long a breaker opens.

use std::time::Duration;

use super::rules::Recovery;

/// `open_time × growth^failed`, capped; then jittered, upward only; and no
/// shorter than what the dependency asked for.
pub(super) fn open_time(
    failed: u32,
    hint: Option<Duration>,
    draw: f64,
    settings: &Recovery,
) -> Duration {
    let cap = settings.max_open_time;
    if failed == 0 {
        return jittered(settings.open_time, hint, draw, settings);
    }
    let exponent = i32::try_from(failed).unwrap_or(i32::MAX);
    let grown = settings.open_time.as_secs_f64() * settings.growth.powi(exponent);
    let grown = if grown < cap.as_secs_f64() {
        Duration::try_from_secs_f64(grown).unwrap_or(cap)
    } else {
        cap
    };
    jittered(grown, hint, draw, settings)
}

fn jittered(grown: Duration, hint: Option<Duration>, draw: f64, settings: &Recovery) -> Duration {
    let extra = grown.as_secs_f64() * settings.open_jitter * draw;
    let jitter = Duration::try_from_secs_f64(extra).unwrap_or(Duration::ZERO);
    let asked = hint.map_or(Duration::ZERO, |hint| hint.min(settings.max_hint_open));
    grown.saturating_add(jitter).max(asked)
}
