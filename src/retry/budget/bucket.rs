//! A token bucket that successes fill.

use crate::moment::Moment;

use super::TOKEN;
use super::engine::{Charge, Terms};
use crate::sync::{AtomicU64, Ordering};

const PRICE_ANSWERED: u64 = TOKEN;
pub(super) const PRICE_UNANSWERED: u64 = 2 * TOKEN;

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// All amounts are in millionths of a token, all times in nanoseconds since `base`.
#[derive(Debug)]
pub(super) struct Bucket {
    balance: AtomicU64,
    /// Until when the refill has been credited, or is about to be by whoever moved this forward.
    refilled_until: AtomicU64,
    deposit: u64,
    cap: u64,
    opening: u64,
    refill_per_second: u64,
    refill_up_to: u64,
    base: Moment,
}

impl Bucket {
    /// A bucket without refill.
    pub(super) fn new(deposit: u64, cap: u64, opening: u64, base: Moment) -> Bucket {
        Bucket {
            balance: AtomicU64::new(opening),
            refilled_until: AtomicU64::new(0),
            deposit,
            cap,
            opening,
            refill_per_second: 0,
            refill_up_to: 0,
            base,
        }
    }

    pub(super) fn refilled(self, per_second: u64, up_to: u64) -> Bucket {
        Bucket {
            refill_per_second: per_second,
            refill_up_to: up_to,
            ..self
        }
    }

    pub(super) fn deposit(&self) {
        self.add(self.deposit, self.cap);
    }

    pub(super) fn withdraw(&self, unanswered: bool, now: Moment) -> Option<Charge> {
        self.refill(now);
        let micros = if unanswered {
            PRICE_UNANSWERED
        } else {
            PRICE_ANSWERED
        };
        let mut seen = self.balance.load(Ordering::Relaxed);
        loop {
            let rest = seen.checked_sub(micros)?;
            match self.balance.compare_exchange_weak(
                seen,
                rest,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(Charge { micros }),
                Err(now) => seen = now,
            }
        }
    }

    pub(super) fn give_back(&self, charge: Charge) {
        self.add(charge.micros, self.cap);
    }

    #[cfg(test)]
    pub(super) fn balance(&self) -> f64 {
        in_tokens(self.balance.load(Ordering::Relaxed))
    }

    pub(super) fn balance_at(&self, now: Moment) -> f64 {
        let from = self.refilled_until.load(Ordering::Relaxed);
        let credit = self.credit(from, self.nanos(now));
        let balance = self.balance.load(Ordering::Relaxed);
        in_tokens(raised(balance, credit, self.refill_up_to).unwrap_or(balance))
    }

    /// Sets the balance; what would have trickled in until `now` is forgotten.
    #[cfg(feature = "test-util")]
    pub(super) fn set_balance(&self, tokens: f64, now: Moment) {
        self.refilled_until
            .fetch_max(self.nanos(now), Ordering::Relaxed);
        // The cast saturates.
        let micros = (tokens * TOKEN as f64).round() as u64;
        self.balance.store(micros.min(self.cap), Ordering::Relaxed);
    }

    pub(super) fn terms(&self) -> Terms {
        Terms::Bucket {
            ratio: in_tokens(self.deposit),
            cap: in_tokens(self.cap),
            opening_balance: in_tokens(self.opening),
            refill_per_second: in_tokens(self.refill_per_second),
            refill_up_to: in_tokens(self.refill_up_to),
        }
    }

    /// Credits the time since the last refill, at once however long it was.
    ///
    /// It is done only here, before a withdrawal. Deposits in between come first and may leave no
    /// room for it, so that a bucket refilled so rarely never holds more than one that is refilled
    /// all the time.
    fn refill(&self, now: Moment) {
        let now = self.nanos(now);
        // A look before the write: a `now` that is not later than the last one has nothing to add.
        if self.refill_per_second == 0 || now <= self.refilled_until.load(Ordering::Relaxed) {
            return;
        }
        // Of all that move the mark forward, each gets the stretch from where it found the mark, so
        // every stretch is credited exactly once. Time in which the bucket was full is claimed,
        // too, and yields nothing. Relaxed: whoever sees the mark but not yet the credit finds too
        // little and at worst does not retry.
        let from = self.refilled_until.fetch_max(now, Ordering::Relaxed);
        self.add(self.credit(from, now), self.refill_up_to);
    }

    /// What comes in between two times, in whole units.
    ///
    /// It is the difference of two totals since the beginning, so that the fractions cut off one
    /// stretch are part of the next, and any number of stretches adds up to what one would give.
    fn credit(&self, from: u64, to: u64) -> u64 {
        let total = |nanos| total(nanos, self.refill_per_second);
        // Not later than the last time: nothing.
        let credit = total(to).saturating_sub(total(from));
        u64::try_from(credit).unwrap_or(u64::MAX)
    }

    /// Adds `amount`, as far as it keeps the balance within `limit`.
    fn add(&self, amount: u64, limit: u64) {
        // Only a load while the bucket is full: successes on many threads do not fight over it.
        let mut seen = self.balance.load(Ordering::Relaxed);
        while let Some(next) = raised(seen, amount, limit) {
            match self.balance.compare_exchange_weak(
                seen,
                next,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Zero for a time before the base. The end of the range is five centuries away, where the
    /// refill stops.
    fn nanos(&self, now: Moment) -> u64 {
        now.nanos().saturating_sub(self.base.nanos())
    }
}

/// `balance` plus `amount`, but not above `limit`; `None` if that changes nothing.
fn raised(balance: u64, amount: u64, limit: u64) -> Option<u64> {
    (amount > 0 && balance < limit).then(|| balance.saturating_add(amount).min(limit))
}

fn in_tokens(micros: u64) -> f64 {
    micros as f64 / TOKEN as f64
}

/// What comes in within so many nanoseconds, in whole units.
///
/// Whole seconds first: what is left of them mostly fits into 64 bits, and a
/// division of 128 takes longer than all else in a withdrawal.
fn total(nanos: u64, per_second: u64) -> u128 {
    let (seconds, rest) = (nanos / NANOS_PER_SEC, nanos % NANOS_PER_SEC);
    let of_rest = match rest.checked_mul(per_second) {
        Some(product) => u128::from(product / NANOS_PER_SEC),
        None => u128::from(rest) * u128::from(per_second) / u128::from(NANOS_PER_SEC),
    };
    u128::from(seconds) * u128::from(per_second) + of_rest
}

#[cfg(test)]
mod tests;
