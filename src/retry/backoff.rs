//! How long to wait before the next try.

mod arithmetic;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use crate::ConfigError;
use crate::draws::split_mix;
use arithmetic::{fractional_growth, scale, whole_growth};

/// How long a call waits before it is tried again.
///
/// The wait before retry *n* (0 for the first retry) is taken from a window of
/// `base * factor^n`, never longer than `cap`. With full jitter it is drawn uniformly from zero to
/// the whole window: clients that failed at the same instant come back spread out instead of in
/// waves, for the least total work of the usual schemes ([Exponential Backoff And Jitter][aws]).
///
/// The window is cut to the cap, and to what the deadline leaves, *before* the draw. Cutting after
/// it would make every longer draw land on the very same instant.
///
/// A wait that the server asked for moves the window: the call waits as long as it was told plus a
/// draw from its own window, so the hint is never undercut, and clients that were given the same
/// hint do not all return together. Without jitter the hint is waited for exactly.
///
/// # Default
///
/// Full jitter from 100 ms to 20 s: the first retry is quick enough for a blip, and the cap is what
/// keeps a long outage from turning every wait into minutes.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use steadfast::Backoff;
///
/// // Windows of 50 ms, 150 ms, 450 ms, 1 s, 1 s, …
/// let backoff = Backoff::full_jitter(Duration::from_millis(50), Duration::from_secs(1)).factor(3.0);
/// # let _ = backoff;
/// ```
///
/// [aws]: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
#[derive(Clone, Debug)]
#[must_use = "a backoff does nothing until a policy or a retry layer is given it"]
pub struct Backoff {
    base: Duration,
    cap: Duration,
    factor: f64,
    jitter: bool,
    seeded: Option<Arc<AtomicU64>>,
}

impl Backoff {
    /// Waits drawn uniformly from zero to `base`, `2 * base`, `4 * base` and so on, none longer
    /// than `cap`.
    ///
    /// A `base` above the `cap` is refused when the policy or layer is built. A `base` of zero
    /// stays zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use steadfast::Backoff;
    ///
    /// const BACKOFF: Backoff =
    ///     Backoff::full_jitter(Duration::from_millis(100), Duration::from_secs(20));
    /// # let _ = BACKOFF;
    /// ```
    pub const fn full_jitter(base: Duration, cap: Duration) -> Backoff {
        Backoff::new(base, cap, true)
    }

    /// Waits of exactly `base`, `2 * base`, `4 * base` and so on, none longer than `cap`, without
    /// jitter.
    ///
    /// All that failed at one instant come back at one instant. Use it where a single client calls,
    /// or where something else spreads the load.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use steadfast::Backoff;
    ///
    /// // 2 s, 4 s, 8 s, …, 256 s, 300 s, 300 s, …
    /// let backoff = Backoff::exponential(Duration::from_secs(2), Duration::from_secs(300));
    /// # let _ = backoff;
    /// ```
    pub const fn exponential(base: Duration, cap: Duration) -> Backoff {
        Backoff::new(base, cap, false)
    }

    /// The same wait before every retry, without jitter.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use steadfast::Backoff;
    ///
    /// let backoff = Backoff::fixed(Duration::from_millis(200));
    /// # let _ = backoff;
    /// ```
    pub const fn fixed(delay: Duration) -> Backoff {
        Backoff::new(delay, delay, false)
    }

    /// No wait of our own: a retry follows at once, or when the server's hint says.
    ///
    /// # Examples
    ///
    /// ```
    /// let backoff = steadfast::Backoff::none();
    /// # let _ = backoff;
    /// ```
    pub const fn none() -> Backoff {
        Backoff::fixed(Duration::ZERO)
    }

    const fn new(base: Duration, cap: Duration, jitter: bool) -> Backoff {
        Backoff {
            base,
            cap,
            factor: 2.0,
            jitter,
            seeded: None,
        }
    }

    /// By how much the window grows with each retry.
    ///
    /// Anything but a finite number of at least 1 is refused when the policy or layer is built.
    /// It changes nothing for [`fixed`](Backoff::fixed) and [`none`](Backoff::none), whose first
    /// window is their cap.
    ///
    /// # Default
    ///
    /// 2: the window outgrows a short outage within a few tries.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use steadfast::Backoff;
    ///
    /// // 100 ms, 150 ms, 225 ms, …
    /// let backoff =
    ///     Backoff::exponential(Duration::from_millis(100), Duration::from_secs(5)).factor(1.5);
    /// # let _ = backoff;
    /// ```
    pub const fn factor(mut self, factor: f64) -> Backoff {
        self.factor = factor;
        self
    }

    /// Makes the draws repeatable, for tests: equal seeds give equal waits, in the order in which
    /// they are drawn.
    ///
    /// Clones made after this call draw from one shared sequence. Not for production: services that
    /// start from the same seed would jitter in step.
    ///
    /// # Default
    ///
    /// The thread's own generator, seeded by the operating system.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use steadfast::Backoff;
    ///
    /// let backoff =
    ///     Backoff::full_jitter(Duration::from_millis(100), Duration::from_secs(20)).seed(7);
    /// # let _ = backoff;
    /// ```
    pub fn seed(mut self, seed: u64) -> Backoff {
        self.seeded = Some(Arc::new(AtomicU64::new(seed)));
        self
    }

    /// Base, cap, factor, and whether there is jitter.
    #[cfg(feature = "serde")]
    pub(crate) const fn terms(&self) -> (Duration, Duration, f64, bool) {
        (self.base, self.cap, self.factor, self.jitter)
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        if !self.factor.is_finite() || self.factor < 1.0 {
            return Err(ConfigError::new(
                "backoff.factor",
                self.factor,
                "must be a finite number of at least 1",
            ));
        }
        if self.base > self.cap {
            return Err(ConfigError::new(
                "backoff.base",
                format!("{:?}", self.base),
                "must not be above the cap",
            ));
        }
        Ok(())
    }

    /// The longest own wait before retry number `retry`, counted from 0: what a draw is taken from,
    /// and the wait itself without jitter.
    pub(crate) fn window(&self, retry: u32) -> Duration {
        if retry == 0 || self.base.is_zero() {
            return self.base.min(self.cap);
        }
        let grown = if self.factor.fract() == 0.0 {
            whole_growth(self.base, self.factor, retry)
        } else {
            fractional_growth(self.base, self.factor, retry)
        };
        // Not below the base, whatever the rounding of enormous values does.
        grown.map_or(self.cap, |window| window.max(self.base).min(self.cap))
    }

    /// What the waits before the first `retries` retries come to at the longest.
    ///
    /// Exact for a thousand of them. Those of a window that has not come to its cap by then grow
    /// too slowly to be added one by one, and are taken to be at the cap.
    pub(crate) fn longest_sum(&self, retries: u32) -> Duration {
        const ADDED: u32 = 1_000;
        let mut sum = Duration::ZERO;
        for retry in 0..retries.min(ADDED) {
            let window = self.window(retry);
            sum = sum.saturating_add(window);
            // All that follow are as long.
            if window == self.cap || self.base.is_zero() || self.factor <= 1.0 {
                return sum.saturating_add(window.saturating_mul(retries - retry - 1));
            }
        }
        sum.saturating_add(self.cap.saturating_mul(retries.saturating_sub(ADDED)))
    }

    /// The wait before retry number `retry`, counted from 0, if it fits into `room`.
    ///
    /// A draw always fits, because its window is cut to the room first.
    pub(crate) fn delay(&self, retry: u32, room: Duration) -> Option<Duration> {
        let window = self.window(retry);
        if self.jitter {
            Some(self.draw(window.min(room)))
        } else {
            (window <= room).then_some(window)
        }
    }

    /// The wait before retry number `retry` when the server said `hint`, if it fits into `room`.
    pub(crate) fn after_hint(
        &self,
        hint: Duration,
        retry: u32,
        room: Duration,
    ) -> Option<Duration> {
        let left = room.checked_sub(hint)?;
        if !self.jitter {
            return Some(hint);
        }
        // Cannot overflow: the draw is at most `left`, and `hint + left` is `room`.
        Some(hint + self.draw(self.window(retry).min(left)))
    }

    /// Uniform over `[0, longest]`, in whole nanoseconds.
    fn draw(&self, longest: Duration) -> Duration {
        if longest.is_zero() {
            return longest;
        }
        let random = self
            .seeded
            .as_ref()
            .map_or_else(rand::random, |counter| split_mix(counter));
        scale(longest, random)
    }
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff::full_jitter(Duration::from_millis(100), Duration::from_secs(20))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);
    const SEC: Duration = Duration::from_secs(1);

    #[test]
    fn a24_windows_double_up_to_the_cap_and_never_overflow() {
        let backoff = Backoff::exponential(2 * SEC, 300 * SEC);
        let windows: Vec<u64> = (0..10).map(|n| backoff.window(n).as_secs()).collect();
        assert_eq!(windows, [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        for retry in [64, 127, 128, 1024, 1100, i32::MAX as u32, u32::MAX] {
            assert_eq!(backoff.window(retry), 300 * SEC, "retry {retry}");
            let jittered = Backoff::full_jitter(2 * SEC, 300 * SEC);
            assert!(jittered.delay(retry, Duration::MAX).unwrap() <= 300 * SEC);
        }
    }

    #[test]
    fn every_growth_stays_within_the_cap_at_the_ends_of_the_number_range() {
        for factor in [1.0, 1.000_000_1, 1.5, 2.0, 3.7, 1e300, f64::MAX] {
            for base in [Duration::from_nanos(1), SEC, Duration::MAX] {
                let backoff = Backoff::full_jitter(base, Duration::MAX).factor(factor);
                for retry in [0, 1, 2, 93, 94, 128, 1100, u32::MAX - 1, u32::MAX] {
                    assert!(backoff.window(retry) >= base, "{factor} {base:?} {retry}");
                }
            }
        }
        let doubling = Backoff::exponential(Duration::from_nanos(1), Duration::MAX);
        assert_eq!(doubling.window(u32::MAX), Duration::MAX);
    }

    #[test]
    fn a_fractional_factor_grows_by_just_that_factor() {
        let backoff = Backoff::exponential(100 * MS, 5 * SEC).factor(1.5);
        assert_eq!(backoff.window(1), 150 * MS);
        assert_eq!(backoff.window(2), 225 * MS);
        assert_eq!(backoff.window(40), 5 * SEC);
        assert_eq!(
            Backoff::exponential(100 * MS, 5 * SEC)
                .factor(1.1)
                .window(2),
            121 * MS
        );
    }

    #[test]
    fn a_base_of_zero_stays_zero_and_a_fixed_delay_stays_fixed() {
        for retry in [0, 1, 64, u32::MAX] {
            for factor in [1.0, 1.5, 2.0, 1e300] {
                let zero = Backoff::exponential(Duration::ZERO, SEC).factor(factor);
                assert_eq!(zero.window(retry), Duration::ZERO);
                let fixed = Backoff::fixed(7 * SEC).factor(factor);
                assert_eq!(fixed.window(retry), 7 * SEC);
            }
            assert_eq!(
                Backoff::none().delay(retry, Duration::ZERO),
                Some(Duration::ZERO)
            );
            assert_eq!(
                Backoff::fixed(Duration::MAX).delay(retry, Duration::MAX),
                Some(Duration::MAX)
            );
        }
    }

    /// Counts per tenth of `[0, longest]`, how many draws hit `longest` exactly, and that none
    /// passes it.
    fn tenths(longest: Duration, draws: impl Iterator<Item = Duration>) -> ([u32; 10], u32) {
        let (mut counts, mut at_the_top) = ([0; 10], 0);
        for draw in draws {
            assert!(draw <= longest, "{draw:?} is above {longest:?}");
            at_the_top += u32::from(draw == longest);
            let tenth = draw.as_nanos() * 10 / (longest.as_nanos() + 1);
            counts[tenth as usize] += 1;
        }
        (counts, at_the_top)
    }

    fn assert_uniform(longest: Duration, draws: impl Iterator<Item = Duration>) {
        let (counts, at_the_top) = tenths(longest, draws);
        // 1,000 each of 10,000 in expectation, with a standard deviation of 30.
        assert!(
            counts.iter().all(|n| (850..=1150).contains(n)),
            "{counts:?}"
        );
        assert!(at_the_top <= 1, "{at_the_top} draws of exactly {longest:?}");
    }

    #[test]
    fn a14_draws_fill_the_capped_window_evenly_without_a_heap_at_the_cap() {
        let backoff = Backoff::full_jitter(100 * MS, SEC).seed(1);
        assert_uniform(
            SEC,
            (0..10_000).map(|_| backoff.delay(50, Duration::MAX).unwrap()),
        );
        assert_uniform(
            100 * MS,
            (0..10_000).map(|_| backoff.delay(0, Duration::MAX).unwrap()),
        );
    }

    #[test]
    fn a_small_room_narrows_the_draw_instead_of_piling_it_up_at_the_deadline() {
        let backoff = Backoff::full_jitter(SEC, 20 * SEC).seed(2);
        let room = 300 * MS;
        assert_uniform(room, (0..10_000).map(|_| backoff.delay(9, room).unwrap()));
    }

    #[test]
    fn windows_of_centuries_are_drawn_from_evenly_too() {
        let backoff = Backoff::full_jitter(Duration::MAX, Duration::MAX).seed(3);
        assert_uniform(
            Duration::MAX,
            (0..10_000).map(|_| backoff.delay(0, Duration::MAX).unwrap()),
        );
    }

    #[test]
    fn without_jitter_a_window_that_does_not_fit_is_no_delay_at_all() {
        let backoff = Backoff::exponential(SEC, 20 * SEC);
        assert_eq!(backoff.delay(2, 4 * SEC), Some(4 * SEC));
        assert_eq!(backoff.delay(2, 4 * SEC - Duration::from_nanos(1)), None);
    }

    #[test]
    fn a_hint_without_jitter_is_waited_for_exactly() {
        let backoff = Backoff::exponential(SEC, 20 * SEC);
        assert_eq!(backoff.after_hint(7 * SEC, 5, 7 * SEC), Some(7 * SEC));
        assert_eq!(backoff.after_hint(7 * SEC, 5, 6 * SEC), None);
        assert_eq!(
            backoff.after_hint(Duration::MAX, 5, Duration::MAX),
            Some(Duration::MAX)
        );
    }

    #[test]
    fn a_hint_is_spread_over_the_own_window_and_never_undercut() {
        let backoff = Backoff::full_jitter(SEC, 20 * SEC).seed(4);
        let hint = 30 * SEC;
        let beyond = |room| {
            (0..10_000).map({
                let backoff = &backoff;
                move |_| backoff.after_hint(hint, 1, room).unwrap().checked_sub(hint)
            })
        };
        assert_uniform(2 * SEC, beyond(Duration::MAX).map(Option::unwrap));
        assert_uniform(500 * MS, beyond(hint + 500 * MS).map(Option::unwrap));
        assert_eq!(backoff.after_hint(hint, 1, hint), Some(hint));
        assert_eq!(backoff.after_hint(hint, 1, hint - MS), None);
        let longest = Duration::MAX;
        assert_eq!(backoff.after_hint(longest, 1, longest), Some(longest));
    }

    #[test]
    fn equal_seeds_draw_alike_and_clones_share_one_sequence() {
        let draws = |backoff: &Backoff| -> Vec<_> {
            (0..20).map(|n| backoff.delay(n, Duration::MAX)).collect()
        };
        let make = |seed| Backoff::full_jitter(SEC, 20 * SEC).seed(seed);
        assert_eq!(draws(&make(9)), draws(&make(9)));
        assert_ne!(draws(&make(9)), draws(&make(10)));

        let original = make(9);
        let clone = original.clone();
        assert_ne!(draws(&original), draws(&clone));
    }

    #[test]
    fn without_a_seed_two_backoffs_do_not_draw_in_step() {
        let one = Backoff::default();
        let two = Backoff::default();
        let draw = |b: &Backoff| (0..8).map(|_| b.delay(7, SEC)).collect::<Vec<_>>();
        assert_ne!(draw(&one), draw(&two));
    }

    #[test]
    fn impossible_settings_are_refused_by_name() {
        for factor in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.999, 0.0, -2.0] {
            let backoff = Backoff::full_jitter(SEC, SEC).factor(factor);
            assert_eq!(backoff.validate().unwrap_err().field(), "backoff.factor");
            // Even if nobody asked: no panic, and not beyond the cap.
            assert!(backoff.window(3) <= SEC);
        }
        let error = Backoff::exponential(2 * SEC, SEC).validate().unwrap_err();
        assert_eq!(
            error.to_string(),
            "field `backoff.base`: value 2s: must not be above the cap"
        );
        for fine in [
            Backoff::default(),
            Backoff::none(),
            Backoff::fixed(Duration::MAX),
            Backoff::full_jitter(SEC, SEC).factor(1.0),
        ] {
            assert_eq!(fine.validate(), Ok(()));
        }
    }

    fn duration() -> impl Strategy<Value = Duration> {
        prop_oneof![
            3 => (0_u64..10_000_000_000).prop_map(Duration::from_nanos),
            1 => (any::<u64>(), 0_u32..1_000_000_000).prop_map(|(s, n)| Duration::new(s, n)),
            1 => Just(Duration::MAX),
        ]
    }

    /// One factor at a time, stopping at the cap.
    fn slow_window(base: Duration, cap: Duration, factor: u32, retry: u32) -> Duration {
        let mut window = base.min(cap);
        for _ in 0..retry {
            window = window.saturating_mul(factor).min(cap);
        }
        window
    }

    proptest! {
        #[test]
        fn whole_factors_give_what_repeated_multiplication_gives(
            base in duration(), cap in duration(), factor in 1_u32..1000, retry in 0_u32..200,
        ) {
            let backoff = Backoff::exponential(base, cap).factor(f64::from(factor));
            prop_assert_eq!(backoff.window(retry), slow_window(base, cap, factor, retry));
        }

        #[test]
        fn windows_never_shrink_with_the_retries_nor_pass_the_cap(
            base in duration(), cap in duration(), factor in 1.0_f64..10.0, retry in 0..u32::MAX,
        ) {
            let backoff = Backoff::exponential(base, cap).factor(factor);
            prop_assert!(backoff.window(retry) <= backoff.window(retry + 1));
            prop_assert!(backoff.window(retry) <= cap);
        }

        #[test]
        fn no_delay_passes_window_or_room_and_no_hint_is_undercut(
            base in duration(), cap in duration(), hint in duration(), room in duration(),
            jitter in any::<bool>(), seed in any::<u64>(), retry in any::<u32>(),
        ) {
            let backoff = Backoff::new(base, cap, jitter).seed(seed);
            let window = backoff.window(retry);
            match backoff.delay(retry, room) {
                Some(delay) => prop_assert!(delay <= window.min(room)),
                None => prop_assert!(!jitter && window > room),
            }
            match backoff.after_hint(hint, retry, room) {
                Some(delay) => {
                    prop_assert!(delay >= hint && delay <= room);
                    let own = if jitter { window } else { Duration::ZERO };
                    prop_assert!(delay - hint <= own);
                }
                None => prop_assert!(hint > room),
            }
        }
    }
}
