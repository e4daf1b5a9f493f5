//! The settings of a breaker as plain numbers.

/// Times in nanoseconds, rates in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    pub consecutive: Option<u32>,
    pub rate: Option<u32>,
    pub window: Window,
    pub min_calls: Option<u32>,
    pub last_failed: Option<u32>,
    /// From how long on a call is slow, and how many of them are too many.
    pub slow: Option<(u64, u32)>,
    pub open_time: u64,
    /// Numerator and denominator.
    pub growth: (u32, u32),
    pub max_open_time: u64,
    pub max_hint_open: u64,
    pub probes: u32,
    pub successes: u32,
    pub lease: u64,
    /// Zero for none.
    pub ramp: u64,
    pub ramp_from: f64,
    pub concurrency_limit: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Window {
    Count(u32),
    Time(u64),
}

impl Settings {
    /// Twenty, or the size of a smaller count window.
    pub fn min_calls(&self) -> usize {
        let default = match self.window {
            Window::Count(calls) => calls.min(20),
            Window::Time(_) => 20,
        };
        self.min_calls.unwrap_or(default) as usize
    }

    /// The open time after so many failed recoveries.
    pub fn grown(&self, failed_recoveries: u32) -> u64 {
        let (numerator, denominator) = self.growth;
        let (mut grown, mut divisor) = (u128::from(self.open_time), 1);
        for _ in 0..failed_recoveries {
            grown *= u128::from(numerator);
            divisor *= u128::from(denominator);
            if grown / divisor >= u128::from(self.max_open_time) {
                return self.max_open_time;
            }
        }
        u64::try_from(grown / divisor).unwrap_or(u64::MAX)
    }

    /// A recovery's sample: of how many calls, what percentage of them may not
    /// fail, and how many in a row may not.
    pub fn sample(&self) -> (usize, usize, usize) {
        let (size, rate) = match self.rate {
            Some(rate) => (self.min_calls(), rate as usize),
            None => (10, 50),
        };
        let runs = [Some(5), self.consecutive, self.last_failed];
        let run = runs.into_iter().flatten().min().unwrap_or(5);
        (size, rate, run as usize)
    }

    /// Whether a breaker that was built with `self` has counted what `other`
    /// asks for.
    pub fn can_become(&self, other: &Self) -> bool {
        let runs = self.consecutive.is_some() || self.last_failed.is_some();
        let windows = self.rate.is_some() || self.last_failed.is_some();
        let any_window = windows || self.slow.is_some();
        !(any_window && self.window != other.window
            || other.consecutive.is_some() && !runs
            || other.rate.is_some() && !windows
            || other.last_failed.is_some() && !(runs && windows)
            || other.slow.is_some() && self.slow.is_none())
    }
}
