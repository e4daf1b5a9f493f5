//! Many clients with steady traffic, and what becomes of their requests second by second.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tower::{Service, ServiceExt};

use super::clock::wait_until;
use super::scenario::{above_zero, at_most};

/// From this share of its requests on, a second counts as recovered.
pub(crate) const RECOVERED: f64 = 0.97;

/// The requests that arrived within one second, and what became of them, whenever that was.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Second {
    pub(crate) requests: u32,
    /// Ended, one way or the other.
    pub(crate) ended: u32,
    pub(crate) answered: u32,
}

impl Second {
    /// The share of its requests that were answered.
    pub(crate) fn answered_share(&self) -> f64 {
        f64::from(self.answered) / f64::from(self.requests.max(1))
    }

    /// Whether it counts as recovered; `None` while some of its requests are under way.
    fn recovered(&self) -> Option<bool> {
        (self.requests > 0 && self.ended == self.requests)
            .then(|| self.answered_share() >= RECOVERED)
    }
}

/// A recovery in tables.
pub(crate) fn seconds_or_never(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| String::from("never"), |seconds| format!("{seconds} s"))
}

/// A recovery in bands: never is later than any bound.
pub(crate) fn or_never(seconds: Option<f64>) -> f64 {
    seconds.unwrap_or(f64::INFINITY)
}

/// Clients that send alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fleet {
    pub(crate) clients: NonZeroU32,
    /// Requests per second and client.
    pub(crate) rate: f64,
}

/// For how long a fleet is watched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    /// When the trouble has passed.
    pub(crate) trouble_ends: Duration,
    /// How long after that a recovery is waited for.
    pub(crate) give_up: Duration,
    /// No end before this, so that a picture has something to show.
    pub(crate) at_least: Duration,
}

/// What was seen of a fleet.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    /// Whole seconds only, by arrival.
    pub(crate) seconds: Vec<Second>,
    /// The first second of arrival after the trouble that recovered, counted from the beginning.
    pub(crate) recovered: Option<usize>,
}

impl Fleet {
    /// For [`Scenario::check`](super::scenario::Scenario::check): refuses what would take for ever.
    pub(crate) fn bearable(&self, length: Duration, attempts: NonZeroU32) -> Result<(), String> {
        above_zero("rate", self.rate)?;
        at_most("rate", self.rate, 1_000.0)?;
        let requests = length.as_secs_f64() * f64::from(self.clients.get()) * self.rate;
        let sends = requests * f64::from(attempts.get());
        if sends > 1e7 {
            return Err(format!(
                "clients={}: with rate, attempts and give_up as they are must come to at most \
                 10000000 sends",
                self.clients
            ));
        }
        Ok(())
    }

    /// Sends through `stacks`, one for each client, until the fleet has recovered or is given up.
    /// Each client's requests are one to a turn, at a random moment within it.
    pub(crate) async fn watch<S>(
        &self,
        stacks: &[S],
        since: Instant,
        watch: Watch,
        mut random: StdRng,
    ) -> Course
    where
        S: Service<(), Future: Send> + Clone + Send + 'static,
    {
        let turn = Duration::from_secs_f64(1.0 / self.rate);
        let last = watch.trouble_ends + watch.give_up;
        let tally = Tally::default();
        let mut requests = JoinSet::new();
        let mut moments: Vec<(Duration, usize)> = Vec::with_capacity(stacks.len());
        let mut recovered = None;
        for number in 0.. {
            let begins = turn * number;
            recovered = recovered.or_else(|| tally.recovered(watch.trouble_ends));
            let enough = recovered.is_some() && begins >= watch.at_least;
            if enough || begins >= last {
                break;
            }
            moments.clear();
            moments.extend((0..stacks.len()).map(|client| {
                let moment = begins + turn.mul_f64(random.random());
                (Duration::from_millis(moment.as_millis() as u64), client)
            }));
            moments.sort_unstable();
            for &(moment, client) in &moments {
                wait_until(since + moment).await;
                let second = moment.as_secs() as usize;
                tally.arrived(second);
                let (stack, tally) = (stacks[client].clone(), tally.clone());
                requests.spawn(async move {
                    let answered = stack.oneshot(()).await.is_ok();
                    tally.ended(second, answered);
                });
            }
            while requests.try_join_next().is_some() {}
        }
        if recovered.is_none() {
            // The last requests may still be answered.
            while requests.join_next().await.is_some() {}
            recovered = tally.recovered(watch.trouble_ends);
        }
        Course {
            seconds: tally.seconds(),
            recovered,
        }
    }
}

#[derive(Clone, Default)]
struct Tally(Arc<Mutex<Vec<Second>>>);

impl Tally {
    fn arrived(&self, second: usize) {
        self.with(second, |tally| tally.requests += 1);
    }

    fn ended(&self, second: usize, answered: bool) {
        self.with(second, |tally| {
            tally.ended += 1;
            tally.answered += u32::from(answered);
        });
    }

    fn with(&self, second: usize, change: impl FnOnce(&mut Second)) {
        let mut seconds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seconds.len() <= second {
            seconds.resize(second + 1, Second::default());
        }
        change(&mut seconds[second]);
    }

    /// The first second after the trouble that recovered, once it and all before it are known.
    fn recovered(&self, trouble_ends: Duration) -> Option<usize> {
        let seconds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = trouble_ends.as_millis().div_ceil(1_000) as usize;
        // The last second may not be over; more of its requests may be to come.
        let over = seconds.len().saturating_sub(1);
        for (second, tally) in seconds.iter().enumerate().take(over).skip(first) {
            if tally.recovered()? {
                return Some(second);
            }
        }
        None
    }

    fn seconds(&self) -> Vec<Second> {
        let mut seconds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = seconds
            .iter()
            .position(|second| second.recovered().is_none());
        if let Some(known) = known {
            seconds.truncate(known);
        }
        std::mem::take(&mut *seconds)
    }
}
