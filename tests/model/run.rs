//! The loop itself: one event after another, the earliest first.

use super::Ms;
use super::breaker::{Breaker, Heard, Permit, Refused, Shown};
use super::budget::Budget;
use super::policy::{Behaviour, Call, Class, Health, Policy, Readiness, Try, Wish};

/// What is to be seen of one call from outside.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub attempts: Vec<Attempt>,
    pub ended_at: Ms,
    pub ending: Ending,
    /// What the call's error names as its source.
    pub source: Option<Source>,
    /// Why no further attempt was decided for, where that was a decision.
    pub stopped: Option<Stopped>,
    /// At its end.
    pub balance: Option<i64>,
    /// At its end.
    pub breaker: Option<Shown>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attempt {
    /// When the dependency was asked whether it is ready.
    pub asked: Ms,
    /// When it got the request.
    pub sent: Option<Ms>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ending {
    /// An answer that came as `Ok`.
    Answer(Class),
    /// The dependency's own error.
    Failed,
    TimedOut,
    DeadlineExceeded,
    Refused(Refused),
    /// The caller went away.
    Dropped,
}

/// An error of the dependency's own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Source {
    Answer(Class),
    /// It failed to become ready.
    Unready,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stopped {
    NotRetryable,
    NotIdempotent,
    AttemptsExhausted,
    RetriesDisabled,
    NotReplayable,
    Breaker(Refused),
    HintTooLong,
    Deadline,
    BudgetExhausted,
}

/// Plays the calls and tells what is to be seen of each.
pub fn run(policy: &Policy, calls: &[Call]) -> Vec<Seen> {
    let mut world = World {
        policy: policy.clone(),
        breaker: policy.breaker.clone().map(Breaker::new),
        budget: policy.budget.map(Budget::new),
    };
    let mut active: Vec<Active> = calls.iter().map(|call| Active::new(policy, call)).collect();
    while let Some((now, index)) = next_event(&active) {
        active[index].event(&mut world, now);
    }
    active
        .into_iter()
        .map(|call| call.seen.expect("every call ends"))
        .collect()
}

fn next_event(active: &[Active]) -> Option<(Ms, usize)> {
    (0..active.len())
        .filter_map(|index| Some((active[index].next_at()?, index)))
        .min()
}

struct World {
    policy: Policy,
    breaker: Option<Breaker>,
    budget: Option<Budget>,
}

impl World {
    fn would_admit(&self, now: Ms) -> Result<(), Refused> {
        self.breaker.as_ref().map_or(Ok(()), |b| b.would_admit(now))
    }

    fn admit(&mut self, now: Ms) -> Result<Option<Permit>, Refused> {
        self.breaker.as_mut().map(|b| b.admit(now)).transpose()
    }

    fn hear(&mut self, now: Ms, permit: Option<Permit>, heard: Heard) {
        if let (Some(breaker), Some(permit)) = (&mut self.breaker, permit) {
            breaker.hear(now, permit, heard);
        }
    }
}

/// A call under way.
struct Active {
    call: Call,
    /// The sooner of the policy's deadline and the caller's.
    limit: Option<Ms>,
    attempts: Vec<Attempt>,
    /// What was paid for the retry under way or to come.
    charge: Option<i64>,
    /// The last error that the dependency gave, unless an answer came since.
    last_error: Option<Source>,
    doing: Doing,
    seen: Option<Seen>,
}

enum Doing {
    /// Not started yet.
    Waiting,
    Trying {
        permit: Option<Permit>,
        since: Ms,
        /// When the request goes out, unless the attempt is cut before.
        sends_at: Option<Ms>,
        /// Never, for a hang without any limit.
        ends: Option<(Ms, Cut)>,
    },
    Sleeping {
        until: Ms,
    },
    Done,
}

/// How an attempt ends.
#[derive(Clone, Copy)]
enum Cut {
    Answer { class: Class, as_error: bool },
    Unready,
    AttemptTimeout,
    Deadline,
}

impl Active {
    fn new(policy: &Policy, call: &Call) -> Self {
        let own = policy.deadline.map(|own| call.starts + own);
        let callers = call.caller_has.map(|left| call.starts + left);
        Self {
            call: call.clone(),
            limit: [own, callers].into_iter().flatten().min(),
            attempts: Vec::new(),
            charge: None,
            last_error: None,
            doing: Doing::Waiting,
            seen: None,
        }
    }

    fn next_at(&self) -> Option<Ms> {
        let own = match &self.doing {
            Doing::Waiting => return Some(self.call.starts),
            Doing::Trying { ends, .. } => ends.map(|(at, _)| at),
            Doing::Sleeping { until } => Some(*until),
            Doing::Done => return None,
        };
        [own, self.dropped_at()].into_iter().flatten().min()
    }

    fn dropped_at(&self) -> Option<Ms> {
        Some(self.call.starts + self.call.dropped_after?)
    }

    fn event(&mut self, world: &mut World, now: Ms) {
        let doing = std::mem::replace(&mut self.doing, Doing::Done);
        if let Doing::Trying { sends_at, .. } = doing {
            let attempt = self.attempts.last_mut().expect("one under way");
            attempt.sent = sends_at.filter(|at| *at <= now);
        }
        if Some(now) == self.dropped_at() {
            return self.dropped(world, now, &doing);
        }
        match doing {
            Doing::Waiting => self.start(world, now),
            Doing::Trying {
                permit,
                since,
                ends,
                ..
            } => {
                let (_, cut) = ends.expect("an attempt with an end");
                self.attempt_over(world, now, permit, since, cut);
            }
            Doing::Sleeping { .. } => match world.admit(now) {
                Ok(permit) => self.attempt(world, now, permit),
                Err(refused) => {
                    self.give_back(world);
                    self.refused(world, now, refused);
                }
            },
            Doing::Done => unreachable!("nothing happens to a call that is over"),
        }
    }

    fn start(&mut self, world: &mut World, now: Ms) {
        if self.limit.is_some_and(|limit| limit <= now) {
            return self.end(world, now, Ending::DeadlineExceeded, None);
        }
        match world.admit(now) {
            Ok(permit) => {
                if let Some(budget) = &mut world.budget {
                    budget.call_begins();
                }
                self.attempt(world, now, permit);
            }
            Err(refused) => self.refused(world, now, refused),
        }
    }

    fn attempt(&mut self, world: &World, now: Ms, permit: Option<Permit>) {
        let Try { ready, then } = self.call.script[self.attempts.len()];
        self.attempts.push(Attempt {
            asked: now,
            sent: None,
        });
        let sends_at = match ready {
            Readiness::After(wait) => Some(now + wait),
            Readiness::Never | Readiness::Fails(_) => None,
        };
        let by_itself = match (ready, then) {
            (Readiness::Fails(after), _) => Some((now + after, Cut::Unready)),
            (Readiness::Never, _) | (_, Behaviour::Hangs) => None,
            (
                Readiness::After(wait),
                Behaviour::Answers {
                    after,
                    class,
                    as_error,
                },
            ) => Some((now + wait + after, Cut::Answer { class, as_error })),
        };
        let timeout = world
            .policy
            .attempt_timeout
            .map(|after| (now + after, Cut::AttemptTimeout));
        let deadline = self.limit.map(|at| (at, Cut::Deadline));
        self.doing = Doing::Trying {
            permit,
            since: now,
            sends_at,
            ends: [by_itself, timeout, deadline]
                .into_iter()
                .flatten()
                .min_by_key(|(at, _)| *at),
        };
    }

    fn attempt_over(
        &mut self,
        world: &mut World,
        now: Ms,
        permit: Option<Permit>,
        since: Ms,
        cut: Cut,
    ) {
        self.retry_over(world);
        match cut {
            Cut::Answer { class, as_error } => {
                let heard = Heard::Answer(class.health(), class.hint());
                world.hear(now, permit, heard);
                if class.health() == Health::Ok {
                    if let Some(budget) = &mut world.budget {
                        budget.success();
                    }
                }
                self.last_error = as_error.then_some(Source::Answer(class));
                let ending = if as_error {
                    Ending::Failed
                } else {
                    Ending::Answer(class)
                };
                // An error that is judged a success is still an error, and not tried again.
                if class == Class::Success && !as_error {
                    self.end(world, now, ending, None);
                } else {
                    self.again_or_end(world, now, class, ending);
                }
            }
            Cut::Unready => {
                // Final for the call, whatever else would allow another attempt.
                world.hear(now, permit, Heard::Answer(Health::Failing, None));
                self.last_error = Some(Source::Unready);
                self.end(world, now, Ending::Failed, Some(Stopped::NotRetryable));
            }
            Cut::AttemptTimeout => {
                world.hear(now, permit, Heard::Answer(Health::Failing, None));
                let was_sent = self.attempts.last().is_some_and(|a| a.sent.is_some());
                let class = if was_sent {
                    Class::Ambiguous
                } else {
                    Class::NotReady
                };
                self.again_or_end(world, now, class, Ending::TimedOut);
            }
            Cut::Deadline => {
                let heard = if ran_long_enough(&world.policy, now - since) {
                    Heard::Answer(Health::Failing, None)
                } else {
                    Heard::Nothing
                };
                world.hear(now, permit, heard);
                self.end(world, now, Ending::DeadlineExceeded, None);
            }
        }
    }

    fn again_or_end(&mut self, world: &mut World, now: Ms, class: Class, ending: Ending) {
        match self.may_go_on(world, now, class) {
            Ok((delay, price)) => {
                self.charge = price;
                self.doing = Doing::Sleeping { until: now + delay };
            }
            Err(stopped) => self.end(world, now, ending, Some(stopped)),
        }
    }

    /// All that must hold for a further attempt, in order; the delay and the
    /// price paid if it does.
    fn may_go_on(
        &self,
        world: &mut World,
        now: Ms,
        class: Class,
    ) -> Result<(Ms, Option<i64>), Stopped> {
        let policy = &world.policy;
        let attempts = u32::try_from(self.attempts.len()).expect("a few");
        if !class.may_repeat() {
            return Err(Stopped::NotRetryable);
        }
        let idempotent = self.call.idempotent && self.call.wish != Some(Wish::NotIdempotent);
        if !class.not_done() && !idempotent {
            return Err(Stopped::NotIdempotent);
        }
        if attempts >= policy.max_attempts {
            return Err(Stopped::AttemptsExhausted);
        }
        if self.call.wish == Some(Wish::NoRetries) {
            return Err(Stopped::RetriesDisabled);
        }
        if !self.call.copyable {
            return Err(Stopped::NotReplayable);
        }
        world.would_admit(now).map_err(Stopped::Breaker)?;
        let too_late = |at: Ms| self.limit.is_some_and(|limit| at > limit);
        if too_late(now + policy.min_useful) {
            return Err(Stopped::Deadline);
        }
        let delay = match class.hint() {
            Some(hint) if hint > policy.largest_hint => return Err(Stopped::HintTooLong),
            Some(hint) => hint,
            None => policy.backoff.delay(attempts - 1),
        };
        if too_late(now + delay + policy.min_useful) {
            return Err(Stopped::Deadline);
        }
        let Some(budget) = &mut world.budget else {
            return Ok((delay, None));
        };
        let price = class.price();
        if budget.pay(now, price) {
            Ok((delay, Some(price)))
        } else {
            Err(Stopped::BudgetExhausted)
        }
    }

    fn refused(&mut self, world: &mut World, now: Ms, refused: Refused) {
        let stopped = Some(Stopped::Breaker(refused));
        self.end(world, now, Ending::Refused(refused), stopped);
    }

    fn dropped(&mut self, world: &mut World, now: Ms, doing: &Doing) {
        match doing {
            Doing::Trying { permit, since, .. } => {
                let heard = if given_up_on(&world.policy, now - since) {
                    Heard::Answer(Health::Failing, None)
                } else {
                    Heard::Nothing
                };
                world.hear(now, *permit, heard);
                self.retry_over(world);
            }
            Doing::Sleeping { .. } => self.give_back(world),
            Doing::Waiting | Doing::Done => unreachable!("a drop within the call"),
        }
        self.end(world, now, Ending::Dropped, None);
    }

    fn retry_over(&mut self, world: &mut World) {
        if let (Some(budget), Some(_)) = (&mut world.budget, self.charge.take()) {
            budget.retry_over();
        }
    }

    fn give_back(&mut self, world: &mut World) {
        if let (Some(budget), Some(price)) = (&mut world.budget, self.charge.take()) {
            budget.give_back(price);
        }
    }

    fn end(&mut self, world: &mut World, now: Ms, ending: Ending, stopped: Option<Stopped>) {
        if let (Some(budget), false) = (&mut world.budget, self.attempts.is_empty()) {
            budget.call_ends();
        }
        self.seen = Some(Seen {
            attempts: self.attempts.clone(),
            ended_at: now,
            ending,
            source: match ending {
                Ending::Answer(_) | Ending::Dropped => None,
                _ => self.last_error,
            },
            stopped,
            balance: world.budget.as_ref().map(|b| b.balance(now)),
            breaker: world.breaker.as_ref().map(|b| b.shown(now)),
        });
    }
}

/// Whether an attempt that the deadline cut tells something of the dependency.
/// Where the policy sets no limit of its own there is nothing to hold the time
/// against, and no cut tells.
fn ran_long_enough(policy: &Policy, ran: Ms) -> bool {
    policy
        .longest_attempt()
        .is_some_and(|longest| ran * 2 >= longest)
}

/// Whether a caller who leaves then has given up on the dependency.
fn given_up_on(policy: &Policy, ran: Ms) -> bool {
    let chosen = policy.breaker.as_ref().and_then(|b| b.abandoned_after);
    match (chosen, policy.longest_attempt()) {
        (Some(chosen), _) => ran >= chosen,
        (None, Some(longest)) => ran * 2 >= longest,
        (None, None) => false,
    }
}
