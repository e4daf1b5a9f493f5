//! A recovery: from a handful of calls to all of them.
//!
//! One successful probe does not prove that the dependency can take the whole
//! traffic, or the backlog that waits for it. So after half-open a share of
//! the calls passes that grows with time, and the first sample of them that
//! fails opens the breaker again.

use super::rules::{PARTS, Recovery};
use crate::span::nanos;

/// Calls that pass whatever the share: with one call per second a tenth of the
/// traffic is no traffic at all, and the recovery would learn nothing.
const HANDFUL: f64 = 5.0;

/// A recovery under way. Each call that asks adds the present share to what
/// may be admitted; so the share is kept exactly at any rate of calls, and
/// costs the same at each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ramp {
    since: u64,
    length: u64,
    from: f64,
    allowed: f64,
    sample: Sample,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    heard: u32,
    failed: u32,
    /// Failures since the last success.
    run: u32,
}

impl Ramp {
    pub(super) fn new(now: u64, settings: &Recovery) -> Self {
        Self {
            since: now,
            length: nanos(settings.ramp),
            from: settings.ramp_from,
            allowed: HANDFUL,
            sample: Sample::default(),
        }
    }

    pub(super) const fn is_over(&self, now: u64) -> bool {
        now.saturating_sub(self.since) >= self.length
    }

    /// The share of the calls that passes now, rising in a straight line.
    pub(super) fn share(&self, now: u64) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a share needs no more")]
        let passed = now.saturating_sub(self.since) as f64 / self.length as f64;
        (self.from + (1.0 - self.from) * passed).min(1.0)
    }

    /// Takes one call's admission, if it is within the share.
    pub(super) fn admits(&mut self, now: u64) -> bool {
        self.allowed += self.share(now);
        let admitted = self.allowed >= 1.0;
        if admitted {
            self.allowed -= 1.0;
        }
        admitted
    }

    /// Counts an outcome and tells whether the sample that it belongs to
    /// fails: as many failures as the failure rate makes of the minimum of
    /// calls, or a run of them that would open a closed breaker.
    pub(super) fn sample_fails(&mut self, failed: bool, settings: &Recovery) -> bool {
        let sample = &mut self.sample;
        sample.heard += 1;
        if failed {
            sample.failed += 1;
            sample.run += 1;
        } else {
            sample.run = 0;
        }
        let fails = u64::from(sample.failed) * u64::from(PARTS)
            >= u64::from(settings.sample_size) * u64::from(settings.sample_rate)
            || sample.run >= settings.sample_run;
        if sample.heard >= settings.sample_size {
            let run = sample.run;
            *sample = Sample {
                run,
                ..Sample::default()
            };
        }
        fails
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::breaker::config::BreakerConfig;

    const SECOND: u64 = 1_000_000_000;

    fn settings() -> Recovery {
        BreakerConfig::default().check().unwrap().recovery
    }

    /// How many of `per_second` calls a second pass in each second.
    fn admitted(per_second: u64) -> Vec<u64> {
        let mut ramp = Ramp::new(0, &settings());
        let mut seconds = vec![0; 10];
        for call in 0..10 * per_second {
            let now = call * SECOND / per_second;
            seconds[usize::try_from(now / SECOND).unwrap()] += u64::from(ramp.admits(now));
        }
        seconds
    }

    #[test]
    fn one_call_a_second_passes_whole() {
        assert_eq!(admitted(1), vec![1; 10]);
    }

    #[test]
    fn a_hundred_thousand_a_second_pass_by_their_share() {
        for (second, calls) in admitted(100_000).into_iter().enumerate() {
            let share = 0.1 + 0.9 * (f64::from(u32::try_from(second).unwrap()) + 0.5) / 10.0;
            #[expect(clippy::cast_precision_loss)]
            let off = (calls as f64 - share * 100_000.0).abs();
            assert!(off < 10.0, "second {second}: {calls}");
        }
    }

    #[test]
    fn a_burst_at_the_first_instant_is_held_to_a_handful_and_a_tenth() {
        let mut ramp = Ramp::new(0, &settings());
        let passed = (0..1000).filter(|_| ramp.admits(0)).count();
        assert!((104..=105).contains(&passed), "{passed}");
    }

    #[test]
    fn a_sample_fails_by_rate_or_by_a_run_and_successes_do_not_dilute_later_ones() {
        let settings = settings();
        assert_eq!((settings.sample_size, settings.sample_run), (20, 5));
        let mut ramp = Ramp::new(0, &settings);
        for _ in 0..100_000 {
            assert!(!ramp.sample_fails(false, &settings));
        }
        for failure in 1..=5 {
            assert_eq!(ramp.sample_fails(true, &settings), failure == 5);
        }
        let mut ramp = Ramp::new(0, &settings);
        let fails = (0..20).position(|call| ramp.sample_fails(call % 2 == 0, &settings));
        assert_eq!(fails, Some(18), "the tenth failure of a sample of twenty");
    }

    #[test]
    fn failures_of_one_sample_are_not_held_against_the_next_but_a_run_goes_on() {
        let settings = settings();
        let mut ramp = Ramp::new(0, &settings);
        let mut hear = |failed: &[bool]| -> Vec<bool> {
            let heard = failed.iter();
            heard.map(|f| ramp.sample_fails(*f, &settings)).collect()
        };
        // Nine failures of twenty, never two in a row, and nine more.
        let nine: Vec<bool> = (0..20).map(|call| call % 2 == 0 && call < 18).collect();
        assert!(!hear(&nine).contains(&true));
        assert!(!hear(&nine).contains(&true));
        // A run of five across the border of two samples.
        let mut end = vec![false; 17];
        end.extend([true; 3]);
        assert!(!hear(&end).contains(&true));
        assert_eq!(hear(&[true, true]), [false, true]);
    }

    #[test]
    fn a_ramp_of_any_length_ends() {
        for length in [Duration::from_nanos(1), Duration::MAX] {
            let settings = Recovery {
                ramp: length,
                ..settings()
            };
            let mut ramp = Ramp::new(u64::MAX - 1, &settings);
            assert!(ramp.admits(u64::MAX - 1));
            assert!(ramp.share(u64::MAX) >= 0.1);
            assert_eq!(ramp.is_over(u64::MAX), length != Duration::MAX);
        }
    }
}
