//! What a policy's settings come to.

use std::fmt;
use std::time::Duration;

use super::Policy;
use crate::breaker::BreakerSettings;
use crate::breaker::config::WindowKind;
use crate::breaker::rules::{PARTS, Rules};
use crate::limit::lesser;
use crate::retry::RetrySettings;
use crate::retry::budget::{Budget, Terms};

/// The effective numbers of a [`Policy`], and where they do not agree.
///
/// Its `Display` is meant for a start-up log.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use steadfast::Policy;
///
/// let policy = Policy::builder("inventory")
///     .deadline(Duration::from_secs(2))
///     .attempt_timeout(Duration::from_secs(3))
///     .build()?;
/// let description = policy.describe();
/// assert!(description.deadline_cuts());
/// assert!(description.warnings()[0].contains("deadline"));
/// # Ok::<(), steadfast::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Description {
    dependency: &'static str,
    worst_case: Option<Duration>,
    schedule: Option<Duration>,
    deadline: Option<Duration>,
    most_sends: u32,
    largest_hint: Duration,
    budget: Option<Terms>,
    breaker: Option<Rules>,
    warnings: Vec<String>,
}

impl Description {
    /// The longest that a call can take; `None` if nothing bounds it.
    ///
    /// By its own settings: a server that asks for longer waits is obeyed, up to
    /// the largest hint before each retry, and as long as the deadline allows.
    #[must_use]
    pub const fn worst_case(&self) -> Option<Duration> {
        self.worst_case
    }

    /// Whether the deadline ends calls before all attempts and waits are used
    /// up.
    #[must_use]
    pub fn deadline_cuts(&self) -> bool {
        match (self.deadline, self.schedule) {
            (Some(deadline), Some(schedule)) => deadline < schedule,
            (Some(_), None) => true,
            (None, _) => false,
        }
    }

    /// The most times that one call is sent.
    #[must_use]
    pub const fn most_sends(&self) -> u32 {
        self.most_sends
    }

    /// The most retries that the budget allows in the long run, as a share of
    /// the successes (0.1 is 10 %) or of the active calls; `None` without a
    /// budget.
    #[must_use]
    pub fn extra_load(&self) -> Option<f64> {
        self.budget.map(|terms| match terms {
            Terms::Bucket { ratio, .. } => ratio,
            Terms::Concurrent { share, .. } => share,
        })
    }

    /// How many calls that all fail open the breaker; `None` without one.
    #[must_use]
    pub fn failures_to_open(&self) -> Option<u32> {
        self.breaker.as_ref().and_then(failures_to_open)
    }

    /// How long the breaker stays open the first time, jitter aside.
    #[must_use]
    pub fn open_time(&self) -> Option<Duration> {
        self.breaker.map(|rules| rules.recovery.open_time)
    }

    /// Settings that work but do not agree, in whole sentences.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

fn failures_to_open(rules: &Rules) -> Option<u32> {
    let rate = rules.rate.map(|_| rules.min_calls);
    [rules.consecutive, rules.last_failed, rate]
        .into_iter()
        .flatten()
        .min()
}

pub(super) fn describe<C, B: BreakerSettings>(policy: &Policy<C, B>) -> Description {
    let settings = &policy.shared.settings.get();
    let timeout = policy.shared.stage.attempt.timeout();
    let deadline = policy.total;
    let schedule = timeout.map(|timeout| schedule(settings, timeout));
    let worst_case = lesser(deadline, schedule);
    let mut description = Description {
        dependency: policy.shared.dependency,
        worst_case,
        schedule,
        deadline,
        most_sends: settings.max_attempts,
        largest_hint: settings.largest_hint,
        budget: policy.shared.budget.as_ref().map(Budget::terms),
        breaker: policy.shared.stage.breakers.rules(),
        warnings: Vec::new(),
    };
    description.warnings = warnings(&description, settings, timeout);
    description
}

/// All attempts timing out, all waits at their longest.
fn schedule(settings: &RetrySettings, timeout: Duration) -> Duration {
    let attempts = timeout.saturating_mul(settings.max_attempts);
    attempts.saturating_add(longest_waits(settings))
}

fn longest_waits(settings: &RetrySettings) -> Duration {
    let retries = settings.max_attempts.saturating_sub(1);
    settings.backoff.longest_sum(retries)
}

fn warnings(
    description: &Description,
    settings: &RetrySettings,
    timeout: Option<Duration>,
) -> Vec<String> {
    let mut warnings = Vec::new();
    if let (Some(deadline), Some(timeout)) = (description.deadline, timeout) {
        let others = settings.max_attempts.saturating_sub(1);
        let last_start = timeout
            .saturating_mul(others)
            .saturating_add(longest_waits(settings));
        if deadline < timeout {
            warnings.push(format!(
                "the deadline of {deadline:?} is shorter than one attempt's timeout of \
                 {timeout:?}: an attempt that hangs leaves no time for another"
            ));
        } else if last_start >= deadline {
            warnings.push(format!(
                "attempt {} of {0} may start only after {last_start:?}: it does not fit into the \
                 deadline of {deadline:?} when those before it time out",
                settings.max_attempts
            ));
        }
    }
    if description.worst_case.is_none() {
        warnings.push(
            "neither a deadline nor an attempt timeout: a dependency that hangs holds its \
             callers for ever, and calls that they give up open no breaker"
                .to_owned(),
        );
    }
    let leaves_no_room =
        |deadline: &Duration| settings.max_attempts > 1 && settings.min_useful_time >= *deadline;
    if let Some(deadline) = description.deadline.filter(leaves_no_room) {
        warnings.push(format!(
            "the minimum useful time of {:?} leaves no room for a retry within {deadline:?}",
            settings.min_useful_time
        ));
    }
    let waits = longest_waits(settings);
    let window = description.breaker.as_ref().and_then(time_window);
    if let Some(window) = window.filter(|window| *window < waits.saturating_mul(2)) {
        warnings.push(format!(
            "the breaker's window of {window:?} is shorter than twice the {waits:?} over which \
             one call spreads its retries: it judges the bad luck of a few calls"
        ));
    }
    let failures = description.failures_to_open();
    if let Some(failures) = failures.filter(|failures| *failures <= settings.max_attempts) {
        warnings.push(format!(
            "{failures} failures open the breaker and one call may make {} attempts: a single \
             request that always fails closes the door for everybody",
            settings.max_attempts
        ));
    }
    if description.budget.is_none() && settings.max_attempts > 1 {
        warnings.push(format!(
            "no retry budget: while everything fails, every call is sent {} times",
            settings.max_attempts
        ));
    }
    warnings
}

/// The length of the window, if it is one of time and a rule uses it.
fn time_window(rules: &Rules) -> Option<Duration> {
    let is_used = rules.rate.is_some() || rules.last_failed.is_some() || rules.slow.is_some();
    match rules.window {
        WindowKind::Time(length) if is_used => Some(length),
        _ => None,
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "policy for `{}`", self.dependency)?;
        let sends = if self.most_sends == 1 {
            "send"
        } else {
            "sends"
        };
        match self.worst_case {
            Some(longest) => write!(f, "  a call takes at most {longest:?}")?,
            None => write!(f, "  a call may take for ever")?,
        }
        writeln!(f, " and {} {sends}", self.most_sends)?;
        if let (true, Some(schedule)) = (self.deadline_cuts(), self.schedule) {
            writeln!(f, "  (without the deadline it could take {schedule:?})")?;
        }
        let has_time = self
            .deadline
            .is_none_or(|deadline| self.worst_case < Some(deadline));
        if has_time && self.most_sends > 1 && !self.largest_hint.is_zero() {
            let hint = self.largest_hint;
            write!(
                f,
                "  (a server may ask for waits of up to {hint:?} before each retry"
            )?;
            match self.deadline {
                Some(deadline) => writeln!(f, ", within {deadline:?} in all)")?,
                None => writeln!(f, ")")?,
            }
        }
        match self.budget {
            None => writeln!(f, "  retries are not budgeted")?,
            Some(Terms::Bucket {
                ratio,
                opening_balance,
                refill_per_second,
                ..
            }) => writeln!(
                f,
                "  retries add at most {:.1} % of the successes, {opening_balance} to begin with \
                 and {refill_per_second}/s",
                ratio * 100.0
            )?,
            Some(Terms::Concurrent {
                share,
                min_concurrent,
            }) => writeln!(
                f,
                "  retries in flight are at most {:.1} % of the active calls, or {min_concurrent}",
                share * 100.0
            )?,
        }
        match &self.breaker {
            None => writeln!(f, "  no breaker")?,
            Some(rules) => write_breaker(f, rules)?,
        }
        for warning in &self.warnings {
            writeln!(f, "  warning: {warning}")?;
        }
        Ok(())
    }
}

fn write_breaker(f: &mut fmt::Formatter<'_>, rules: &Rules) -> fmt::Result {
    let window = match rules.window {
        WindowKind::Count(calls) => format!("in the last {calls} calls"),
        WindowKind::Time(length) => format!("in {length:?}"),
    };
    let mut opens = Vec::new();
    if let Some(rate) = rules.rate {
        let percent = f64::from(rate) / f64::from(PARTS) * 100.0;
        let calls = rules.min_calls;
        opens.push(format!(
            "{percent:.1} % of at least {calls} calls {window} failed"
        ));
    }
    if let Some(last) = rules.last_failed {
        opens.push(format!("the last {last} {window} all failed"));
    }
    if let Some(slow) = rules.slow {
        let percent = f64::from(slow.rate) / f64::from(PARTS) * 100.0;
        let (calls, threshold) = (rules.min_calls, slow.threshold);
        opens.push(format!(
            "{percent:.1} % of at least {calls} calls {window} took {threshold:?} or longer"
        ));
    }
    if let Some(consecutive) = rules.consecutive {
        opens.push(format!("{consecutive} failed in a row"));
    }
    writeln!(f, "  the breaker opens when {}", opens.join(", or "))?;
    let recovery = &rules.recovery;
    let probes = match recovery.probes {
        1 => "one probe".to_owned(),
        probes => format!("{probes} probes"),
    };
    write!(
        f,
        "  for {:?} at first and {:?} at most, jitter aside, then admits {probes}",
        recovery.open_time, recovery.max_open_time
    )?;
    if recovery.ramp.is_zero() {
        return writeln!(f);
    }
    let from = recovery.ramp_from * 100.0;
    writeln!(f, ", then {from:.0} % to all in {:?}", recovery.ramp)
}
