//! From settings to a budget at work, or to what is wrong with them.

use crate::moment::Moment;

use super::bucket::{self, Bucket};
use super::concurrent::Slots;
use super::{Budget, Kind, RetryBudget, TOKEN};
use crate::ConfigError;

/// The most tokens that a setting may name. In millionths it is far below what `u64` holds, so no
/// sum of two amounts overflows, and `f64` still holds every whole number up to it.
pub(super) const MAX_TOKENS: f64 = 1e9;
/// One of the parts that are counted.
const LEAST: f64 = 1e-6;

impl RetryBudget {
    /// Makes the budget itself, whose refill counts from this moment.
    pub(crate) fn build(&self) -> Result<Budget, ConfigError> {
        match self.kind {
            Kind::Ratio(ratio) => self.build_bucket(ratio).map(Budget::from),
            Kind::Concurrent(share) => self.build_slots(share).map(Budget::from),
        }
    }

    fn build_bucket(&self, ratio: f64) -> Result<Bucket, ConfigError> {
        if let Some(retries) = self.min_concurrent {
            return Err(ConfigError::new(
                "retry_budget.min_concurrent",
                retries,
                "belongs to `RetryBudget::concurrent`, not to a ratio",
            ));
        }
        let deposit = micros("retry_budget.ratio", ratio, 1000.0, "must be at most 1000")?;

        let cap_tokens = self.cap.unwrap_or(Self::DEFAULT_CAP);
        let cap = tokens("retry_budget.cap", cap_tokens)?;
        if cap < TOKEN {
            return Err(ConfigError::new(
                "retry_budget.cap",
                cap_tokens,
                "must be at least 1, the price of a retry",
            ));
        }

        let opening_tokens = self
            .opening_balance
            .unwrap_or(Self::DEFAULT_OPENING_BALANCE.min(cap_tokens));
        let opening = tokens("retry_budget.opening_balance", opening_tokens)?;
        if opening > cap {
            return Err(ConfigError::new(
                "retry_budget.opening_balance",
                opening_tokens,
                "must not be above the cap",
            ));
        }

        // Both are checked, even where only one of them counts.
        let trickle = tokens(
            "retry_budget.trickle",
            self.trickle.unwrap_or(Self::DEFAULT_TRICKLE),
        )?;
        let floor = self
            .floor_per_second
            .map(|floor| tokens("retry_budget.floor_per_second", floor))
            .transpose()?;
        let bucket = Bucket::new(deposit, cap, opening, Moment::now());
        Ok(match floor {
            Some(floor) => bucket.refilled(floor, cap),
            None => bucket.refilled(trickle, cap.min(bucket::PRICE_UNANSWERED)),
        })
    }

    fn build_slots(&self, share: f64) -> Result<Slots, ConfigError> {
        for (field, value) in [
            ("retry_budget.cap", self.cap),
            ("retry_budget.opening_balance", self.opening_balance),
            ("retry_budget.trickle", self.trickle),
            ("retry_budget.floor_per_second", self.floor_per_second),
        ] {
            if let Some(value) = value {
                return Err(ConfigError::new(
                    field,
                    value,
                    "belongs to `RetryBudget::ratio`, not to a share of concurrent calls",
                ));
            }
        }
        let micro_share = micros(
            "retry_budget.share",
            share,
            1.0,
            "must be at most 1, which is every call under way",
        )?;
        let min = self.min_concurrent.unwrap_or(Self::DEFAULT_MIN_CONCURRENT);
        if micro_share == 0 && min == 0 {
            return Err(ConfigError::new(
                "retry_budget.min_concurrent",
                min,
                "must be at least 1 where the share is 0, or nothing could ever be retried",
            ));
        }
        Ok(Slots::new(micro_share, min))
    }
}

/// An amount of tokens in millionths.
fn tokens(field: &'static str, value: f64) -> Result<u64, ConfigError> {
    micros(field, value, MAX_TOKENS, "must be at most 1000000000")
}

/// `value` in millionths, to the nearest, if it is a number from 0 to `most`.
fn micros(
    field: &'static str,
    value: f64,
    most: f64,
    too_large: &'static str,
) -> Result<u64, ConfigError> {
    // Asked this way round, NaN is refused as well.
    if !(value >= 0.0 && value.is_finite()) {
        let problem = "must be a finite number of at least 0";
        return Err(ConfigError::new(field, value, problem));
    }
    if value > most {
        return Err(ConfigError::new(field, value, too_large));
    }
    // 1.001 or 8.2 times a million comes out a hair short: rounding is what makes them exact.
    let micros = (value * TOKEN as f64).round() as u64;
    if value > 0.0 && value < LEAST {
        let problem = "is too small to be counted: must be 0 or at least 0.000001";
        return Err(ConfigError::new(field, value, problem));
    }
    Ok(micros)
}

#[cfg(test)]
mod tests {
    use super::super::Terms;
    use super::*;

    fn refusal(settings: &RetryBudget) -> ConfigError {
        settings
            .build()
            .expect_err("impossible settings are refused")
    }

    fn bucket_terms(settings: &RetryBudget) -> (f64, f64, f64, f64, f64) {
        match settings.build().unwrap().terms() {
            Terms::Bucket {
                ratio,
                cap,
                opening_balance,
                refill_per_second,
                refill_up_to,
            } => (ratio, cap, opening_balance, refill_per_second, refill_up_to),
            other => panic!("not a bucket: {other:?}"),
        }
    }

    #[test]
    fn the_defaults_are_a_tenth_ten_ten_and_a_tenth_per_second_up_to_two() {
        let default = bucket_terms(&RetryBudget::default());
        assert_eq!(default, (0.1, 10.0, 10.0, 0.1, 2.0));
        assert_eq!(
            RetryBudget::concurrent(0.25).build().unwrap().terms(),
            Terms::Concurrent {
                share: 0.25,
                min_concurrent: 3
            }
        );
    }

    #[test]
    fn an_opening_balance_that_was_not_set_follows_a_low_cap_but_not_a_high_one() {
        let (_, cap, opening, _, refill_up_to) = bucket_terms(&RetryBudget::ratio(0.1).cap(1.5));
        assert_eq!((cap, opening, refill_up_to), (1.5, 1.5, 1.5));
        let (_, cap, opening, ..) = bucket_terms(&RetryBudget::ratio(0.1).cap(1000.0));
        assert_eq!((cap, opening), (1000.0, 10.0));
    }

    #[test]
    fn a_floor_takes_the_place_of_the_trickle_in_either_order() {
        for settings in [
            RetryBudget::ratio(0.0).no_trickle().floor_per_second(1.0),
            RetryBudget::ratio(0.0).floor_per_second(1.0).no_trickle(),
        ] {
            let (.., per_second, up_to) = bucket_terms(&settings);
            assert_eq!((per_second, up_to), (1.0, 10.0));
        }
        let (.., per_second, _) = bucket_terms(&RetryBudget::ratio(0.1).no_trickle());
        assert_eq!(per_second, 0.0);
    }

    #[test]
    fn values_that_are_no_amounts_are_refused_by_name() {
        type Setter = fn(f64) -> RetryBudget;
        let settings: [(&str, Setter); 6] = [
            ("retry_budget.ratio", RetryBudget::ratio),
            ("retry_budget.share", RetryBudget::concurrent),
            ("retry_budget.cap", |v| RetryBudget::ratio(0.1).cap(v)),
            ("retry_budget.opening_balance", |v| {
                RetryBudget::ratio(0.1).opening_balance(v)
            }),
            ("retry_budget.trickle", |v| {
                // Wrong is wrong, even where the floor is what counts.
                RetryBudget::ratio(0.1).trickle(v).floor_per_second(1.0)
            }),
            ("retry_budget.floor_per_second", |v| {
                RetryBudget::ratio(0.1).floor_per_second(v)
            }),
        ];
        for (field, make) in settings {
            for value in [
                f64::NAN,
                f64::INFINITY,
                f64::NEG_INFINITY,
                -1.0,
                -f64::MIN_POSITIVE,
                f64::MIN_POSITIVE,
                1e-7,
                1.1e9,
                f64::MAX,
            ] {
                let error = refusal(&make(value));
                assert_eq!(error.field(), field, "{value}");
                assert_eq!(error.value(), value.to_string());
            }
        }
    }

    #[test]
    fn values_beyond_the_sense_of_their_setting_are_refused() {
        let field = |settings: &RetryBudget| refusal(settings).field().to_owned();
        assert_eq!(field(&RetryBudget::ratio(1000.1)), "retry_budget.ratio");
        assert_eq!(field(&RetryBudget::concurrent(20.0)), "retry_budget.share");
        for cap in [0.0, 0.5, 0.999_999] {
            let settings = RetryBudget::ratio(0.1).cap(cap);
            assert_eq!(field(&settings), "retry_budget.cap");
        }
        assert_eq!(
            refusal(&RetryBudget::ratio(0.1).opening_balance(10.5)).to_string(),
            "field `retry_budget.opening_balance`: value 10.5: must not be above the cap"
        );
        assert_eq!(
            field(&RetryBudget::concurrent(0.0).min_concurrent(0)),
            "retry_budget.min_concurrent"
        );
    }

    #[test]
    fn the_largest_and_smallest_amounts_that_are_taken_are_kept_exactly() {
        let largest = RetryBudget::ratio(1000.0)
            .cap(MAX_TOKENS)
            .opening_balance(MAX_TOKENS)
            .floor_per_second(MAX_TOKENS);
        assert_eq!(bucket_terms(&largest), (1000.0, 1e9, 1e9, 1e9, 1e9));
        assert!(RetryBudget::ratio(0.1).cap(1.0).build().is_ok());
        let smallest = RetryBudget::ratio(0.000_001)
            .opening_balance(0.0)
            .trickle(0.000_001);
        assert_eq!(bucket_terms(&smallest), (1e-6, 10.0, 0.0, 1e-6, 2.0));
        assert!(
            RetryBudget::concurrent(1.0)
                .min_concurrent(0)
                .build()
                .is_ok()
        );
        assert!(
            RetryBudget::concurrent(0.0)
                .min_concurrent(u32::MAX)
                .build()
                .is_ok()
        );
    }

    #[test]
    fn decimal_amounts_are_kept_to_the_millionth() {
        for amount in [0.15, 0.29, 0.3, 1.001, 1.5, 1.015, 8.2, 999.999_999] {
            let settings = RetryBudget::ratio(amount)
                .cap(amount + 1.0)
                .opening_balance(amount);
            let (ratio, _, opening, ..) = bucket_terms(&settings);
            assert_eq!((ratio, opening), (amount, amount));
        }
    }

    #[test]
    fn settings_of_the_other_kind_are_refused_even_at_their_defaults() {
        for (field, settings) in [
            ("cap", RetryBudget::concurrent(0.2).cap(10.0)),
            (
                "opening_balance",
                RetryBudget::concurrent(0.2).opening_balance(10.0),
            ),
            ("trickle", RetryBudget::concurrent(0.2).no_trickle()),
            (
                "floor_per_second",
                RetryBudget::concurrent(0.2).floor_per_second(1.0),
            ),
            ("min_concurrent", RetryBudget::ratio(0.1).min_concurrent(3)),
        ] {
            assert_eq!(refusal(&settings).field(), format!("retry_budget.{field}"));
        }
    }
}
