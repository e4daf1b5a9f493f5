//! Does each step to both breakers and compares all that can be seen of them.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use steadfast::{Breaker, BreakerConfig, Permit, Refusal, Verdict, Window as RealWindow};
use tokio::time::{Instant, advance};

use super::reference::{Call, Reference, Refused, Told};
use super::settings::{Settings, Window};
use super::steps::{Calls, Change, Step, Wait};

/// How often what was seen.
pub type Seen = BTreeMap<String, u64>;

/// Both breakers and the calls under way.
struct Pair<'a> {
    real: Breaker,
    reference: Reference,
    settings: Settings,
    begun: Instant,
    calls: Vec<(Permit, Call)>,
    seen: &'a mut Seen,
}

pub async fn play(
    settings: Settings,
    steps: Vec<Step>,
    seen: &mut Seen,
) -> Result<(), TestCaseError> {
    let mut pair = Pair {
        real: Breaker::new("model", config(&settings))
            .map_err(|error| TestCaseError::fail(format!("{error} of settings that should do")))?,
        reference: Reference::new(settings),
        settings,
        begun: Instant::now(),
        calls: Vec::new(),
        seen,
    };
    pair.compare()?;
    for (number, step) in steps.into_iter().enumerate() {
        let done = pair.step(step).await.and_then(|()| pair.compare());
        done.map_err(|error| {
            let at = Duration::from_nanos(pair.now());
            TestCaseError::fail(format!("step {number}, {step:?}, at {at:?}: {error}"))
        })?;
    }
    Ok(())
}

impl Pair<'_> {
    async fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        let now = self.now();
        match step {
            Step::Start => self.start()?,
            Step::Finish(call, told) => self.finish(call, told),
            Step::Drop(call) => {
                if let Some((permit, call)) = self.take(call) {
                    drop(permit);
                    self.reference.finish(call, Told::Nothing, now, false);
                }
            }
            Step::Panic(call) => {
                if let Some((permit, call)) = self.take(call) {
                    let panics = || {
                        let _held = permit;
                        // Without the hook, which would print.
                        resume_unwind(Box::new("a caller's panic"));
                    };
                    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
                    self.reference.finish(call, Told::Nothing, now, false);
                }
            }
            Step::Calls(Calls {
                calls,
                one_in,
                told,
                rest,
            }) => {
                for call in 1..=calls {
                    self.call(if call % one_in == 0 { told } else { rest })?;
                }
            }
            Step::Heal => {
                let wait = self.reference.next_check(now).unwrap_or(0);
                advance(Duration::from_nanos(wait)).await;
                for _ in 0..self.settings.successes {
                    self.call(Told::Success)?;
                }
            }
            Step::Wait(wait) => advance(Duration::from_nanos(self.length_of(wait))).await,
            Step::ForceOpen(reason) => {
                self.real.force_open(reason);
                self.reference.force_open(reason, now);
            }
            Step::Disable => {
                self.real.disable();
                self.reference.disable(now);
            }
            Step::Reset => {
                self.real.reset();
                self.reference.reset(now);
            }
            Step::Reconfigure(change) => self.reconfigure(change)?,
        }
        Ok(())
    }

    /// A call that ends at once.
    fn call(&mut self, told: Told) -> Result<(), TestCaseError> {
        let before = self.calls.len();
        self.start()?;
        if self.calls.len() > before {
            self.finish(before, told);
        }
        self.compare()
    }

    fn start(&mut self) -> Result<(), TestCaseError> {
        let admitted = self.real.admit();
        let expected = self.reference.admit(self.now());
        self.note(match &expected {
            Ok(_) => "admitted",
            Err(refused) => refused.reason,
        });
        match (admitted, expected) {
            (Ok(permit), Ok(call)) => self.calls.push((permit, call)),
            (admitted, expected) => {
                let admitted = admitted.err().as_ref().map(refused);
                prop_assert_eq!(admitted, expected.err(), "admission, expected on the right");
            }
        }
        Ok(())
    }

    fn finish(&mut self, call: usize, told: Told) {
        let Some((permit, call)) = self.take(call) else {
            return;
        };
        let before = self.real.snapshot().generation();
        match told {
            Told::Success => permit.success(),
            Told::Failure(None) => permit.failure(),
            Told::Failure(hint) => {
                permit.record(&Verdict::overloaded(hint.map(Duration::from_nanos)));
            }
            Told::Neutral => permit.neutral(),
            Told::Nothing => permit.record(&Verdict::refused_below()),
        }
        let changed = self.real.snapshot().generation() != before;
        self.reference.finish(call, told, self.now(), changed);
    }

    fn reconfigure(&mut self, change: Change) -> Result<(), TestCaseError> {
        let settings = match change {
            Change::NoProbes => {
                let config = config(&self.settings).probes(0);
                prop_assert!(self.real.reconfigure(&config).is_err());
                return Ok(());
            }
            Change::All(settings) => settings,
            Change::Others(settings) => with_window(settings, self.settings.window),
        };
        let possible = self.reference.reconfigure(settings);
        let done = self.real.reconfigure(&config(&settings));
        prop_assert_eq!(
            done.is_ok(),
            possible,
            "reconfigured, expected on the right"
        );
        if possible {
            self.settings = settings;
        }
        self.note(if possible {
            "reconfigured"
        } else {
            "not reconfigured"
        });
        Ok(())
    }

    fn compare(&mut self) -> Result<(), TestCaseError> {
        let now = self.now();
        let (reference, real) = (&self.reference, self.real.snapshot());
        let state = reference.state(now);
        prop_assert_eq!(format!("{:?}", real.state()), state);
        prop_assert_eq!(self.real.state(), real.state());
        prop_assert_eq!(real.dependency(), "model");
        prop_assert_eq!(real.generation(), reference.generation(), "generation");
        let check = real.next_check().map(nanos);
        prop_assert_eq!(check, reference.next_check(now), "next check");
        prop_assert_eq!(real.forced_reason(), reference.forced_reason());
        let (calls, failures) = reference.counts(now);
        prop_assert_eq!(real.calls(), calls as u64, "calls");
        prop_assert_eq!(real.failures(), failures as u64, "failures");
        prop_assert_eq!(real.share(), reference.share(now), "share");
        let failed = reference.failed_recoveries(now);
        prop_assert_eq!(real.failed_recoveries(), failed, "failed recoveries");
        prop_assert_eq!(real.in_flight(), reference.in_flight(), "in flight");
        let look = self.real.would_admit().err().as_ref().map(refused);
        prop_assert_eq!(look, reference.refusal(now), "a look");
        self.note(state);
        if failed > 1 {
            self.note("several failed recoveries");
        }
        Ok(())
    }

    fn take(&mut self, call: usize) -> Option<(Permit, Call)> {
        let under_way = self.calls.len();
        (under_way > 0).then(|| self.calls.remove(call % under_way))
    }

    fn length_of(&self, wait: Wait) -> u64 {
        let now = self.now();
        let to = |time: u64, off: i64| time.saturating_add_signed(off).saturating_sub(now);
        match wait {
            Wait::Nanos(nanos) => nanos,
            Wait::UntilOver(event, off) => {
                let times = self.reference.times_of_interest(now);
                let time = times.get(event % times.len().max(1));
                time.map_or(0, |time| to(*time, off))
            }
            Wait::UntilSlow(call, off) => {
                let call = self.calls.get(call % self.calls.len().max(1));
                let slow = self.settings.slow;
                call.zip(slow)
                    .map_or(0, |((_, call), (from, _))| to(call.started + from, off))
            }
            Wait::Slots(slots) => match self.settings.window {
                Window::Count(_) => 0,
                Window::Time(length) => slots * (length / 10),
            },
        }
    }

    fn now(&self) -> u64 {
        nanos(self.begun.elapsed())
    }

    fn note(&mut self, seen: &str) {
        *self.seen.entry(seen.to_owned()).or_default() += 1;
    }
}

fn refused(refusal: &Refusal) -> Refused {
    Refused {
        reason: refusal.reason().as_str(),
        note: refusal.note(),
        retry_after: refusal.retry_after().map(nanos),
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Other settings over the same window, which must hold what they ask for.
fn with_window(settings: Settings, window: Window) -> Settings {
    let fits = |calls: u32| match window {
        Window::Count(size) => calls.min(size),
        Window::Time(_) => calls,
    };
    Settings {
        window,
        min_calls: settings.min_calls.map(fits),
        last_failed: settings.last_failed.map(fits),
        ..settings
    }
}

fn config(settings: &Settings) -> BreakerConfig {
    let share = |percent: u32| f64::from(percent) / 100.0;
    let mut config = match (settings.consecutive, settings.rate) {
        (Some(calls), None) => BreakerConfig::consecutive(calls),
        (Some(calls), Some(rate)) => BreakerConfig::consecutive(calls).or_failure_rate(share(rate)),
        (None, rate) => BreakerConfig::failure_rate(share(rate.unwrap_or(100))),
    };
    config = config.window(match settings.window {
        Window::Count(calls) => RealWindow::count(calls),
        Window::Time(length) => RealWindow::time(Duration::from_nanos(length)),
    });
    if let Some(calls) = settings.min_calls {
        config = config.min_calls(calls);
    }
    if let Some(calls) = settings.last_failed {
        config = config.last_failed(calls);
    }
    if let Some((from, rate)) = settings.slow {
        config = config.slow_calls(Duration::from_nanos(from), share(rate));
    }
    if let Some(calls) = settings.concurrency_limit {
        config = config.concurrency_limit(calls);
    }
    let (numerator, denominator) = settings.growth;
    config
        .open_time(Duration::from_nanos(settings.open_time))
        .growth(f64::from(numerator) / f64::from(denominator))
        .max_open_time(Duration::from_nanos(settings.max_open_time))
        .open_jitter(0.0)
        .max_hint_open(Duration::from_nanos(settings.max_hint_open))
        .probes(settings.probes)
        .successes(settings.successes)
        .probe_lease(Duration::from_nanos(settings.lease))
        .ramp(Duration::from_nanos(settings.ramp))
        .ramp_from(settings.ramp_from)
}
