//! A server with one queue, first come first served, that does not know who has left: a request
//! whose caller gave up still takes its time.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tower::{Service, service_fn};

use super::dependency::Down;

/// How much a server gets done: `capacity` requests per second, and only `share` of that during
/// the dip.
#[derive(Clone, Debug)]
pub(crate) struct Capacity {
    pub(crate) per_second: f64,
    pub(crate) dip: Range<Duration>,
    pub(crate) share: f64,
}

impl Capacity {
    /// The requests that a server which was never idle would have served by `time`, in seconds.
    fn done_by(&self, time: f64) -> f64 {
        let (from, to) = self.dip();
        let lost = (time.clamp(from, to) - from) * (1.0 - self.share);
        (time - lost) * self.per_second
    }

    /// When that many are served: [`done_by`](Self::done_by), the other way round.
    fn time_of(&self, done: f64) -> f64 {
        let (from, to) = self.dip();
        let (before, after) = (self.done_by(from), self.done_by(to));
        if done <= before {
            done / self.per_second
        } else if done < after {
            from + (done - before) / (self.per_second * self.share)
        } else {
            to + (done - after) / self.per_second
        }
    }

    fn dip(&self) -> (f64, f64) {
        (self.dip.start.as_secs_f64(), self.dip.end.as_secs_f64())
    }
}

/// The server; its clones share the queue.
#[derive(Clone)]
pub(crate) struct Fifo {
    since: Instant,
    capacity: Capacity,
    queue: Arc<Mutex<Queue>>,
}

#[derive(Default)]
struct Queue {
    /// The work up to which all is promised to those who have come already.
    promised: f64,
    /// How many have come, second by second.
    sends: Vec<u32>,
}

impl Fifo {
    pub(crate) fn new(capacity: Capacity) -> Self {
        Self {
            since: Instant::now(),
            capacity,
            queue: Arc::default(),
        }
    }

    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// How many requests have reached it in each second.
    pub(crate) fn sends(&self) -> Vec<u32> {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.sends.clone()
    }

    /// Since all before it is known, a request's end is known when it comes.
    fn enqueue(&self) -> Instant {
        let now = self.since.elapsed();
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let second = now.as_secs() as usize;
        if queue.sends.len() <= second {
            queue.sends.resize(second + 1, 0);
        }
        queue.sends[second] += 1;
        let begin = queue.promised.max(self.capacity.done_by(now.as_secs_f64()));
        queue.promised = begin + 1.0;
        self.since + Duration::from_secs_f64(self.capacity.time_of(queue.promised))
    }

    pub(crate) fn service(
        &self,
    ) -> impl Service<(), Response = (), Error = Down, Future: Send> + Clone + Send + 'static {
        let fifo = self.clone();
        service_fn(move |()| {
            let served = fifo.enqueue();
            async move {
                sleep_until(served).await;
                Ok(())
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_and_time_are_each_others_inverse_through_a_dip_and_a_standstill() {
        for share in [0.25, 0.0, 1.0] {
            let capacity = Capacity {
                per_second: 100.0,
                dip: Duration::from_secs(5)..Duration::from_secs(15),
                share,
            };
            assert_eq!(capacity.done_by(5.0), 500.0);
            assert_eq!(capacity.done_by(15.0), 500.0 + 1_000.0 * share);
            assert_eq!(capacity.done_by(16.0), 600.0 + 1_000.0 * share);
            for tenths in (0..300).filter(|tenths| share > 0.0 || !(51..150).contains(tenths)) {
                let time = f64::from(tenths) / 10.0;
                let back = capacity.time_of(capacity.done_by(time));
                let stood_still = share == 0.0 && (5.0..=15.0).contains(&time);
                assert!(stood_still || (back - time).abs() < 1e-9, "{time}: {back}");
            }
        }
    }
}
