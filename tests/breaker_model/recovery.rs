//! What happened in a recovery, and what follows from it.

use super::settings::Settings;

const HANDFUL: f64 = 5.0;

#[derive(Clone, Debug)]
pub struct Recovery {
    pub since: u64,
    pub length: u64,
    pub from: f64,
    /// The share at each call that asked.
    pub asked: Vec<f64>,
    /// Whether each outcome failed, and how large a sample was then.
    pub heard: Vec<(bool, usize)>,
}

impl Recovery {
    pub const fn is_over(&self, now: u64) -> bool {
        now - self.since >= self.length
    }

    /// In a straight line from the first share to all.
    pub fn share(&self, now: u64) -> f64 {
        let passed = (now - self.since) as f64 / self.length as f64;
        (self.from + (1.0 - self.from) * passed).min(1.0)
    }

    /// Whether a call that asks now is within the share of all that have asked,
    /// beyond the handful that passes at any rate.
    pub fn passes(&self, now: u64) -> bool {
        let mut allowed = HANDFUL;
        let mut passes = false;
        for share in self.asked.iter().copied().chain([self.share(now)]) {
            allowed += share;
            passes = allowed >= 1.0;
            if passes {
                allowed -= 1.0;
            }
        }
        passes
    }

    /// Whether the sample of the last outcome fails. Samples follow one
    /// another; a run of failures may span them.
    pub fn sample_fails(&self, settings: &Settings) -> bool {
        let (size, rate, longest_run) = settings.sample();
        let mut sample = Vec::new();
        for (heard, (failed, size_then)) in self.heard.iter().enumerate() {
            sample.push(*failed);
            let last = heard + 1 == self.heard.len();
            if sample.len() >= *size_then && !last {
                sample.clear();
            }
        }
        let failed = sample.iter().filter(|failed| **failed).count();
        let run = self.heard.iter().rev().take_while(|(failed, _)| *failed);
        failed * 100 >= size * rate || run.count() >= longest_run
    }
}
