//! The storm after the outage: a server that was slow for a few seconds, and whether the clients'
//! own retries let it come back.

use std::num::NonZeroU32;
use std::time::Duration;

use rand::RngExt;
use serde_json::json;
use steadfast::ServiceBuilderExt;
use tower::{BoxError, ServiceBuilder};

use super::arrangement::Arrangement;
use super::chart::{Chart, Line, Scale, steps};
use super::clock;
use super::fifo::{Capacity, Fifo};
use super::fleet::{Course, Fleet, RECOVERED, Second, Watch, or_never, seconds_or_never};
use super::inputs::{Input, grouped};
use super::random;
use super::report::{Band, Report, Table};
use super::scenario::{Scenario, above_zero, at_most, reference, some_time, whole_seconds};

const SECOND: Duration = Duration::from_secs(1);

/// The inputs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RetryStorm {
    pub(crate) clients: NonZeroU32,
    pub(crate) rate: f64,
    pub(crate) capacity: f64,
    pub(crate) dip_share: f64,
    pub(crate) dip_begins: Duration,
    pub(crate) dip_length: Duration,
    pub(crate) attempt_timeout: Duration,
    pub(crate) attempts: NonZeroU32,
    pub(crate) give_up: Duration,
}

impl Default for RetryStorm {
    fn default() -> Self {
        Self {
            clients: const { NonZeroU32::new(200).unwrap() },
            rate: 5.0,
            capacity: 1_100.0,
            dip_share: 0.25,
            dip_begins: Duration::from_secs(5),
            dip_length: Duration::from_secs(10),
            attempt_timeout: Duration::from_secs(1),
            attempts: const { NonZeroU32::new(3).unwrap() },
            give_up: Duration::from_secs(300),
        }
    }
}

/// What was seen of one arrangement.
#[derive(Clone, Debug)]
pub(crate) struct Storm {
    pub(crate) arrangement: Arrangement,
    pub(crate) course: Course,
    /// What reached the server, second by second.
    pub(crate) sends: Vec<u32>,
    /// Seconds from the end of the dip to the first second of arrival that recovered.
    pub(crate) recovered_s: Option<f64>,
    /// Sends for each request, from the beginning of the dip to the recovery or the end.
    pub(crate) attempts_per_request: f64,
}

impl RetryStorm {
    fn dip_ends(&self) -> Duration {
        self.dip_begins + self.dip_length
    }

    /// Measures one arrangement, for `at_least` that long.
    ///
    /// # Errors
    ///
    /// When a policy cannot be built.
    pub(crate) fn measure(
        &self,
        arrangement: Arrangement,
        at_least: Duration,
        seed: u64,
    ) -> Result<Storm, BoxError> {
        clock::paused(self.story(arrangement, at_least, seed))
    }

    async fn story(
        &self,
        arrangement: Arrangement,
        at_least: Duration,
        seed: u64,
    ) -> Result<Storm, BoxError> {
        let server = Fifo::new(Capacity {
            per_second: self.capacity,
            dip: self.dip_begins..self.dip_ends(),
            share: self.dip_share,
        });
        let mut random = random::stream(seed, "retry_storm");
        let mut stacks = Vec::new();
        for _ in 0..self.clients.get() {
            let policy = arrangement
                .settings(self.attempts, random.random())
                .attempt_timeout(self.attempt_timeout)
                .build()?;
            let stack = ServiceBuilder::new().resilience(policy);
            stacks.push(stack.service(server.service()));
        }
        let watch = Watch {
            trouble_ends: self.dip_ends(),
            give_up: self.give_up,
            at_least,
        };
        let course = self
            .fleet()
            .watch(&stacks, server.since(), watch, random)
            .await;
        Ok(self.storm(arrangement, course, server.sends()))
    }

    fn storm(&self, arrangement: Arrangement, course: Course, sends: Vec<u32>) -> Storm {
        let from = self.dip_begins.as_secs() as usize;
        let to = course.recovered.unwrap_or(course.seconds.len());
        let sum = |counts: &mut dyn Iterator<Item = u32>| -> f64 {
            counts.skip(from).take(to - from).map(f64::from).sum()
        };
        let sent = sum(&mut sends.iter().copied());
        let requested = sum(&mut course.seconds.iter().map(|second| second.requests));
        let recovered = course.recovered.map(|second| second as f64);
        Storm {
            arrangement,
            recovered_s: recovered.map(|second| second - self.dip_ends().as_secs_f64()),
            attempts_per_request: sent / requested,
            course,
            sends,
        }
    }

    /// How much of the story tables and pictures show.
    fn shown(&self) -> Duration {
        self.dip_ends() + (10 * self.dip_length).max(10 * SECOND)
    }

    fn table(&self, storms: &[Storm], published: bool) -> Table<6> {
        let shown = self.shown().as_secs() as usize;
        let mut table = Table::new([
            "",
            "reference",
            "recovered after",
            "attempts/request",
            "peak sends/s",
            &format!("answered in {shown} s"),
        ]);
        for storm in storms {
            let published_figure = match storm.arrangement {
                Arrangement::NoRetries => "-",
                Arrangement::RetriesAlone => "never",
                Arrangement::BudgetOnly => "65 to 75 s",
                Arrangement::BreakerOnly => "about 21 s",
                Arrangement::Steadfast => "about 22 s",
            };
            let seconds = || storm.course.seconds.iter().take(shown);
            let answered: u32 = seconds().map(|second| second.answered).sum();
            let requests: u32 = seconds().map(|second| second.requests).sum();
            let peak = storm.sends.iter().max().copied().unwrap_or_default();
            table.row([
                storm.arrangement.label().to_owned(),
                reference(published, published_figure),
                seconds_or_never(storm.recovered_s),
                format!("{:.2}", storm.attempts_per_request),
                grouped(peak.into()),
                format!("{:.1} %", 100.0 * f64::from(answered) / f64::from(requests)),
            ]);
        }
        table
    }

    fn charts(&self, storms: &[Storm]) -> Vec<Chart> {
        let (begins, ends) = (self.dip_begins.as_secs_f64(), self.dip_ends().as_secs_f64());
        let shown = self.shown().as_secs_f64();
        // A breaker alone and the whole stack are close: the thin dashes go over the broad line.
        let order = [
            Arrangement::NoRetries,
            Arrangement::RetriesAlone,
            Arrangement::BudgetOnly,
            Arrangement::Steadfast,
            Arrangement::BreakerOnly,
        ];
        let drawn = || {
            let find = |wanted| storms.iter().find(move |storm| storm.arrangement == wanted);
            order.into_iter().filter_map(find)
        };
        let line = |storm: &Storm, points| Line {
            name: storm.arrangement.label(),
            ink: storm.arrangement.ink(),
            points,
        };
        let sends = drawn().map(|storm| {
            let sends = storm.sends.iter().copied().map(f64::from);
            line(storm, steps(sends, 1.0))
        });
        let most = drawn().flat_map(|storm| &storm.sends).max().copied();
        let top = (f64::from(most.unwrap_or_default()).max(self.capacity) * 1.1 / 100.0).ceil();
        let answered = drawn().map(|storm| {
            let shares = storm.course.seconds.iter().map(Second::answered_share);
            line(storm, steps(shares.map(|share| share * 100.0), 1.0))
        });
        let shade = || Some((begins..ends, "dip"));
        vec![
            Chart {
                title: format!(
                    "The storm: what reaches a server that can serve {} per second",
                    grouped(self.capacity as u64)
                ),
                x: "seconds",
                y: "attempts per second",
                x_range: 0.0..shown,
                y_range: 0.0..top * 100.0,
                scale: Scale::Linear,
                shade: shade(),
                lines: sends.collect(),
            },
            Chart {
                title: String::from("The storm: who gets an answer, by second of arrival"),
                x: "seconds",
                y: "% of requests answered",
                x_range: 0.0..shown,
                y_range: 0.0..119.0,
                scale: Scale::Linear,
                shade: shade(),
                lines: answered.collect(),
            },
        ]
    }

    fn fleet(&self) -> Fleet {
        Fleet {
            clients: self.clients,
            rate: self.rate,
        }
    }
}

impl Scenario for RetryStorm {
    fn name(&self) -> &'static str {
        "retry_storm"
    }

    fn summary(&self) -> &'static str {
        "how long clients need to recover from a server's slow seconds"
    }

    fn inputs(&mut self) -> Vec<Input<'_>> {
        vec![
            Input::new("clients", "clients, a policy each", &mut self.clients),
            Input::new("rate", "requests per second and client", &mut self.rate),
            Input::new(
                "capacity",
                "requests per second that the server can serve",
                &mut self.capacity,
            ),
            Input::new(
                "dip_share",
                "share of its capacity that is left in the dip",
                &mut self.dip_share,
            ),
            Input::new(
                "dip_begins",
                "seconds before the dip, whole",
                &mut self.dip_begins,
            ),
            Input::new(
                "dip_length",
                "seconds of the dip, whole",
                &mut self.dip_length,
            ),
            Input::new(
                "attempt_timeout",
                "seconds after which a caller gives an attempt up",
                &mut self.attempt_timeout,
            ),
            Input::new(
                "attempts",
                "attempts per request, the first included",
                &mut self.attempts,
            ),
            Input::new(
                "give_up",
                "seconds after the dip in which a recovery counts",
                &mut self.give_up,
            ),
        ]
    }

    fn check(&self) -> Result<(), String> {
        above_zero("capacity", self.capacity)?;
        at_most("dip_share", self.dip_share, 1.0)?;
        some_time("attempt_timeout", self.attempt_timeout)?;
        some_time("give_up", self.give_up)?;
        at_most("attempt_timeout", self.attempt_timeout.as_secs_f64(), 60.0)?;
        whole_seconds("dip_begins", self.dip_begins)?;
        whole_seconds("dip_length", self.dip_length)?;
        let length = self.dip_ends() + self.give_up;
        self.fleet().bearable(length, self.attempts)
    }

    fn run(&self, seed: u64) -> Result<Report, BoxError> {
        let published = *self == Self::default();
        // Long enough that the requests which come at the end of what is shown have ended.
        let longest = (self.attempt_timeout + SECOND) * self.attempts.get();
        let at_least = self.shown() + longest;
        let storms = Arrangement::ALL.map(|arrangement| self.measure(arrangement, at_least, seed));
        let storms = storms.into_iter().collect::<Result<Vec<_>, _>>()?;
        let [
            no_retries,
            retries_alone,
            budget_only,
            breaker_only,
            steadfast,
        ] = &storms[..]
        else {
            return Err("an arrangement is missing".into());
        };
        Ok(Report {
            table: self.table(&storms, published).render(),
            meaning: format!(
                "Seconds from the end of the dip to the first second of arrival whose requests \
                 were answered to {:.0} % or more; never: not within {} s. Attempts are counted \
                 from the beginning of the dip to the recovery, refused requests as none. All \
                 rows are the library's own parts on their defaults. Retries alone keep the queue \
                 full of requests whose callers have left. With a budget alone it drains later \
                 than without retries by what the opening balances and the trickle have added (the \
                 small steps in the picture: it reaches the price of a retry in all clients at \
                 once). A breaker stops sending until the queue is gone and then lets the traffic back \
                 by shares. Its open times are jittered at random, not by the seed.",
                RECOVERED * 100.0,
                self.give_up.as_secs_f64(),
            ),
            bands: vec![
                Band::new(
                    "retry_storm.retries_alone_s",
                    or_never(retries_alone.recovered_s),
                    f64::INFINITY..=f64::INFINITY,
                ),
                Band::new(
                    "retry_storm.budget_only_s",
                    or_never(budget_only.recovered_s),
                    1.0..=120.0,
                ),
                Band::new(
                    "retry_storm.breaker_only_s",
                    or_never(breaker_only.recovered_s),
                    1.0..=45.0,
                ),
                Band::new(
                    "retry_storm.steadfast_s",
                    or_never(steadfast.recovered_s),
                    1.0..=45.0,
                ),
                Band::new(
                    "retry_storm.steadfast_attempts_per_request",
                    steadfast.attempts_per_request,
                    0.0..=1.15,
                ),
            ],
            charts: self.charts(&storms),
            json: json!({
                "no_retries_s": no_retries.recovered_s,
                "retries_alone_s": retries_alone.recovered_s,
                "budget_only_s": budget_only.recovered_s,
                "breaker_only_s": breaker_only.recovered_s,
                "steadfast_s": steadfast.recovered_s,
                "steadfast_attempts_per_request": steadfast.attempts_per_request,
            }),
        })
    }
}
