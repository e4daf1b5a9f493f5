//! The retry budget: a number of micro-tokens, brought up to date at every look,
//! or a number of calls and retries.

use super::Ms;
use super::policy::{self, Refill, TOKEN};

pub struct Budget {
    settings: policy::Budget,
    /// Of a ratio.
    tokens: i64,
    as_of: Ms,
    /// Calls under way.
    calls: u32,
    /// Those of them that wait for a retry or make one.
    retrying: u32,
}

impl Budget {
    pub fn new(settings: policy::Budget) -> Self {
        let tokens = match settings {
            policy::Budget::Ratio { opening, .. } => opening,
            policy::Budget::Concurrent { .. } => 0,
        };
        Self {
            settings,
            tokens,
            as_of: 0,
            calls: 0,
            retrying: 0,
        }
    }

    /// Micro-tokens, or a million for each retry that there is room for.
    pub fn balance(&self, now: Ms) -> i64 {
        match self.settings {
            policy::Budget::Ratio { cap, refill, .. } => {
                let (rate, up_to) = match refill {
                    Refill::Trickle(rate) => (rate, cap.min(2 * TOKEN)),
                    Refill::Floor(rate) => (rate, cap),
                };
                // Second by second would be more obvious still, but hours pass.
                let passed = i64::try_from(now - self.as_of).expect("a short run");
                let refilled = up_to.min(self.tokens + rate * passed / 1000);
                self.tokens.max(refilled)
            }
            policy::Budget::Concurrent { percent, min } => {
                let allowed = min.max(self.calls * percent / 100);
                i64::from(allowed.saturating_sub(self.retrying)) * TOKEN
            }
        }
    }

    pub fn call_begins(&mut self) {
        self.calls += 1;
    }

    pub fn call_ends(&mut self) {
        self.calls -= 1;
    }

    pub fn success(&mut self) {
        if let policy::Budget::Ratio { ratio, .. } = self.settings {
            self.put(ratio);
        }
    }

    /// Pays for a retry if the balance allows it.
    pub fn pay(&mut self, now: Ms, price: i64) -> bool {
        let price = match self.settings {
            policy::Budget::Ratio { .. } => price,
            policy::Budget::Concurrent { .. } => TOKEN,
        };
        let balance = self.balance(now);
        let enough = balance >= price;
        if let policy::Budget::Ratio { .. } = self.settings {
            self.as_of = now;
            self.tokens = balance - if enough { price } else { 0 };
        }
        self.retrying += u32::from(enough);
        enough
    }

    /// The attempt that was paid for is over.
    pub fn retry_over(&mut self) {
        self.retrying -= 1;
    }

    /// The attempt that was paid for never started.
    pub fn give_back(&mut self, price: i64) {
        self.retrying -= 1;
        self.put(price);
    }

    /// What comes in does not wait for the refill: that is credited when a retry
    /// asks, and finds the room that is left then.
    fn put(&mut self, amount: i64) {
        if let policy::Budget::Ratio { cap, .. } = self.settings {
            self.tokens = cap.min(self.tokens + amount);
        }
    }
}
