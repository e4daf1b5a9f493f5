//! The retry budget: a number of micro-tokens, brought up to date at every look.

use super::Ms;
use super::policy::{self, TOKEN};

pub struct Budget {
    settings: policy::Budget,
    balance: i64,
    as_of: Ms,
}

impl Budget {
    pub fn new(settings: policy::Budget) -> Self {
        Self {
            settings,
            balance: settings.opening,
            as_of: 0,
        }
    }

    pub fn balance(&mut self, now: Ms) -> i64 {
        // One millisecond after another would be more obvious still, but hours pass.
        let passed = i64::try_from(now - self.as_of).expect("a short run");
        self.as_of = now;
        let flow = |rate: i64, up_to: i64, balance: i64| {
            let more = balance + rate * passed / 1000;
            balance.max(more.min(up_to))
        };
        self.balance = flow(self.settings.floor, self.settings.cap, self.balance);
        let one_retry = TOKEN.min(self.settings.cap);
        self.balance = flow(self.settings.trickle, one_retry, self.balance);
        self.balance
    }

    pub fn deposit(&mut self, now: Ms) {
        self.balance(now);
        self.put(self.settings.ratio);
    }

    /// Takes the price if the balance holds it.
    pub fn pay(&mut self, now: Ms, price: i64) -> bool {
        let enough = self.balance(now) >= price;
        if enough {
            self.balance -= price;
        }
        enough
    }

    pub fn give_back(&mut self, now: Ms, price: i64) {
        self.balance(now);
        self.put(price);
    }

    fn put(&mut self, amount: i64) {
        self.balance = self.settings.cap.min(self.balance + amount);
    }
}
