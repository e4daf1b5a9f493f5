//! How fast parked calls may come back.

use std::time::Duration;

use tokio::time::Instant;

/// How long arrivals are measured for at least. A crowd of one instant has no
/// rate; it comes back over this long.
const LEAST_SPAN: Duration = Duration::from_secs(10);

/// The longest wait between two returns: any dependency that is well takes one
/// call a second, and one that is rarely called would keep its few parked
/// calls for hours.
const LONGEST_GAP: Duration = Duration::from_secs(1);

/// The pace of one breaker's returns.
///
/// A backlog that comes back at once is the outage's second half. So the
/// returns at most double the traffic that there is: one for each new call
/// that is admitted; and where new calls stay away, one in the time in which
/// one used to come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Since when and how many arrivals are being counted.
    since: Instant,
    count: u32,
    /// Between two arrivals, as last measured.
    measured: Option<Duration>,
    last_arrival: Instant,
    last_return: Option<Return>,
}

#[derive(Clone, Copy, Debug)]
struct Return {
    at: Instant,
    /// Whether it came in the place of an arrival that stayed away.
    alone: bool,
}

impl Pace {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            since: now,
            count: 0,
            measured: None,
            last_arrival: now,
            last_return: None,
        }
    }

    /// A new call came, admitted or not.
    pub(super) fn arrived(&mut self, now: Instant) {
        let span = now.saturating_duration_since(self.since);
        if span >= LEAST_SPAN {
            self.measured = Some(span / self.count.max(1));
            self.since = now;
            self.count = 0;
        }
        self.count = self.count.saturating_add(1);
        self.last_arrival = now;
    }

    /// Whether a parked call may follow a new one that was admitted now. Not if
    /// one came in its place a moment ago.
    pub(super) fn may_follow(&self, now: Instant) -> bool {
        self.last_return
            .is_none_or(|last| !last.alone || now.saturating_duration_since(last.at) >= self.gap())
    }

    /// When the next may come back by itself. New calls are waited for a little
    /// longer than they used to take, or each would find one there already.
    pub(super) fn next(&self) -> Instant {
        let gap = self.gap();
        let quiet = self.last_arrival + 2 * gap;
        self.last_return
            .map_or(quiet, |last| quiet.max(last.at + gap))
    }

    pub(super) const fn returned(&mut self, now: Instant, alone: bool) {
        self.last_return = Some(Return { at: now, alone });
    }

    /// Between two arrivals: as last measured, or less if by now more have come.
    fn gap(&self) -> Duration {
        let so_far = LEAST_SPAN / self.count.max(1);
        self.measured
            .map_or(so_far, |measured| measured.min(so_far))
            .min(LONGEST_GAP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENTH: Duration = Duration::from_millis(100);

    /// A pace after ten arrivals a second for twenty seconds, and the instant
    /// of the last.
    fn ten_a_second() -> (Pace, Instant) {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        for tenth in 0..=200 {
            pace.arrived(start + tenth * TENTH);
        }
        (pace, start + 200 * TENTH)
    }

    #[test]
    fn without_arrivals_the_last_rate_holds() {
        let (mut pace, mut now) = ten_a_second();
        assert_eq!(pace.next(), now + 2 * TENTH);
        for _ in 0..50 {
            now = pace.next();
            pace.returned(now, true);
            assert_eq!(pace.next(), now + TENTH);
        }
    }

    #[test]
    fn each_arrival_may_be_followed_by_one_and_none_comes_by_itself() {
        let (mut pace, mut now) = ten_a_second();
        for _ in 0..50 {
            now += TENTH;
            assert!(pace.next() > now);
            pace.arrived(now);
            assert!(pace.may_follow(now));
            pace.returned(now, false);
        }
    }

    #[test]
    fn one_that_came_in_the_place_of_an_arrival_is_not_followed_by_another() {
        let (mut pace, now) = ten_a_second();
        let alone = now + 2 * TENTH;
        pace.returned(alone, true);
        pace.arrived(alone + TENTH / 2);
        assert!(!pace.may_follow(alone + TENTH / 2));
        assert!(pace.may_follow(alone + TENTH));
    }

    #[test]
    fn a_crowd_of_one_instant_comes_back_over_ten_seconds() {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        for _ in 0..1_000 {
            pace.arrived(now);
        }
        pace.returned(now + LEAST_SPAN, true);
        assert_eq!(pace.next(), now + LEAST_SPAN + LEAST_SPAN / 1_000);
    }

    #[test]
    fn rare_calls_come_back_a_second_apart() {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        for hour in 0..5_u32 {
            pace.arrived(now + hour * Duration::from_secs(3600));
        }
        let later = now + Duration::from_secs(86_400);
        pace.returned(later, true);
        assert_eq!(pace.next(), later + LONGEST_GAP);
    }

    #[test]
    fn a_flood_of_arrivals_neither_overflows_nor_stops_the_returns() {
        let now = Instant::now();
        let mut pace = Pace::new(now);
        pace.count = u32::MAX;
        pace.arrived(now);
        pace.returned(now, true);
        assert!(pace.next() > now);
    }
}
