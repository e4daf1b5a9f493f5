//! Does each step to both breakers and compares all that can be seen of them.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use steadfast::{
    Breaker, BreakerConfig, BreakerState, Permit, Refusal, Verdict, Window as RealWindow,
};
use tokio::time::{Instant, advance};

use super::reference::{Call, Reference, Refused, Told};
use super::settings::{Settings, Window};
use super::steps::{Calls, Change, Step, Wait};

/// How often what was seen.
pub type Seen = BTreeMap<String, u64>;

/// What one breaker does and the other does not.
pub type Difference = String;

/// After so many healthy calls nothing that happened before may hold it back.
const HEALTHY_CALLS: u32 = 40;

macro_rules! same {
    ($real:expr, $expected:expr, $what:literal) => {
        let (real, expected) = ($real, $expected);
        if real != expected {
            return Err(format!("{}: {real:?}, expected {expected:?}", $what));
        }
    };
}

/// Both breakers and the calls under way.
struct Pair<'a> {
    real: Breaker,
    reference: Reference,
    settings: Settings,
    begun: Instant,
    calls: Vec<(Permit, Call)>,
    seen: &'a mut Seen,
}

pub async fn play(settings: Settings, steps: Vec<Step>, seen: &mut Seen) -> Result<(), Difference> {
    let mut pair = Pair {
        real: Breaker::new("model", config(&settings))
            .map_err(|error| format!("{error} of settings that should do"))?,
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
            format!("step {number}, {step:?}, at {at:?}: {error}")
        })?;
    }
    let recovered = pair.recover().await;
    recovered.map_err(|error| format!("in the healthy calls after the last step: {error}"))
}

impl Pair<'_> {
    async fn step(&mut self, step: Step) -> Result<(), Difference> {
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
            Step::Calls(calls) => self.calls(calls)?,
            Step::Heal => {
                self.until_due().await;
                for _ in 0..self.settings.successes {
                    self.call(Told::Success)?;
                }
            }
            Step::Probe(calls) => {
                self.until_due().await;
                self.calls(calls)?;
            }
            Step::Slow(off, told) => {
                let before = self.calls.len();
                self.start()?;
                if self.calls.len() > before {
                    let wait = self.length_of(Wait::UntilSlow(before, off));
                    advance(Duration::from_nanos(wait)).await;
                    self.finish(before, told);
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

    /// A breaker that nobody forced open is closed again by time and healthy calls.
    async fn recover(&mut self) -> Result<(), Difference> {
        while !self.calls.is_empty() {
            self.step(Step::Drop(0)).await?;
        }
        let state = self.real.state();
        if state == BreakerState::ForcedOpen || state == BreakerState::Disabled {
            self.step(Step::Reset).await?;
        }
        for _ in 0..HEALTHY_CALLS {
            self.step(Step::Wait(Wait::UntilOver(0, 0))).await?;
            self.call(Told::Success)?;
        }
        same!(self.real.state(), BreakerState::Closed, "state at the end");
        same!(self.real.snapshot().in_flight(), 0, "in flight at the end");
        Ok(())
    }

    async fn until_due(&self) {
        let wait = self.reference.next_check(self.now()).unwrap_or(0);
        advance(Duration::from_nanos(wait)).await;
    }

    fn calls(&mut self, calls: Calls) -> Result<(), Difference> {
        for call in 1..=calls.calls {
            let one = call % calls.one_in == 0;
            self.call(if one { calls.told } else { calls.rest })?;
        }
        Ok(())
    }

    /// A call that ends at once.
    fn call(&mut self, told: Told) -> Result<(), Difference> {
        let before = self.calls.len();
        self.start()?;
        if self.calls.len() > before {
            self.finish(before, told);
        }
        self.compare()
    }

    fn start(&mut self) -> Result<(), Difference> {
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
                same!(admitted, expected.err(), "admission");
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

    fn reconfigure(&mut self, change: Change) -> Result<(), Difference> {
        let settings = match change {
            Change::NoProbes => {
                let config = config(&self.settings).probes(0);
                same!(self.real.reconfigure(&config).is_ok(), false, "no probes");
                return Ok(());
            }
            Change::All(settings) => settings,
            Change::Others(settings) => with_window(settings, self.settings.window),
        };
        let possible = self.reference.reconfigure(settings);
        let done = self.real.reconfigure(&config(&settings));
        same!(done.is_ok(), possible, "reconfigured");
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

    fn compare(&mut self) -> Result<(), Difference> {
        let now = self.now();
        let (reference, real) = (&self.reference, self.real.snapshot());
        let state = reference.state(now);
        same!(format!("{:?}", real.state()), state, "state");
        same!(self.real.state(), real.state(), "state, asked again");
        same!(real.dependency(), "model", "name");
        same!(real.generation(), reference.generation(), "generation");
        let check = real.next_check().map(nanos);
        same!(check, reference.next_check(now), "next check");
        same!(real.forced_reason(), reference.forced_reason(), "reason");
        let (calls, failures) = reference.counts(now);
        same!(real.calls(), calls as u64, "calls");
        same!(real.failures(), failures as u64, "failures");
        same!(real.share(), reference.share(now), "share");
        let failed = reference.failed_recoveries(now);
        same!(real.failed_recoveries(), failed, "failed recoveries");
        same!(real.in_flight(), reference.in_flight(), "in flight");
        let look = self.real.would_admit().err().as_ref().map(refused);
        same!(look, reference.refusal(now), "a look");
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
