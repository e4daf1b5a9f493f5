//! How many retries a client may add to its traffic.

mod bucket;
mod build;
mod concurrent;
mod engine;

pub(crate) use engine::{Budget, Charge, Terms};

/// Tokens are counted in millionths, so that fractions of a token are whole numbers.
const TOKEN: u64 = 1_000_000;

/// How many retries a client may add to its traffic, however its calls fail.
///
/// A limit per call is no limit for a fleet: with three attempts, a dependency that fails everything
/// gets three times its normal load at the worst moment. A budget looks at the traffic instead and
/// lets retries through only while they stay a small share of it. When it cannot pay, the call ends
/// with the result of its last attempt.
///
/// There are two kinds:
///
/// - [`ratio`](RetryBudget::ratio), a token bucket. A success pays in, a retry takes out: one
///   token if the last attempt was answered, two if it was not (a timeout, a reset). An attempt
///   without an answer may still be running over there, and is the usual sign of overload; the
///   standard retry mode of the AWS SDKs charges double for a timeout, too. The retries that are
///   sent never outnumber `ratio × successes + opening balance + refill`.
/// - [`concurrent`](RetryBudget::concurrent), a cap on the retries that are in flight or wait for
///   their turn, as a share of all calls that are under way: the retry budget of Envoy's circuit
///   breakers.
///
/// Every clone of a policy or layer shares its budget; two that are built from the same settings
/// do not. A charge is given back only when its attempt never started.
///
/// Settings that cannot work, or that belong to the other kind, are refused when the policy or
/// layer is built. Amounts are kept in millionths of a token, so that 0.3 means 30 %: a hundred
/// successes at 0.3 pay for thirty retries.
///
/// # Default
///
/// [`ratio(0.1)`](RetryBudget::ratio) with the defaults of its settings. One retry in ten
/// successes is the ratio that Google's book on reliability gives for a client's retry budget
/// ([Handling Overload][sre]): it carries a client through the usual blips and adds about a tenth
/// to the load when all else fails.
///
/// # Examples
///
/// ```
/// use steadfast::RetryBudget;
///
/// const BULK: RetryBudget = RetryBudget::ratio(0.2).cap(100.0).opening_balance(20.0);
/// const INTERACTIVE: RetryBudget = RetryBudget::concurrent(0.2).min_concurrent(5);
/// # let _ = (BULK, INTERACTIVE);
/// ```
///
/// [sre]: https://sre.google/sre-book/handling-overload/
#[derive(Clone, Debug)]
#[must_use = "a budget does nothing until a policy or a retry layer is given it"]
pub struct RetryBudget {
    kind: Kind,
    // `None` where nothing was said, so that a setting of the other kind can be told apart from a
    // default.
    cap: Option<f64>,
    opening_balance: Option<f64>,
    trickle: Option<f64>,
    floor_per_second: Option<f64>,
    min_concurrent: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Ratio(f64),
    Concurrent(f64),
}

impl RetryBudget {
    const DEFAULT_RATIO: f64 = 0.1;
    const DEFAULT_CAP: f64 = 10.0;
    const DEFAULT_OPENING_BALANCE: f64 = 10.0;
    const DEFAULT_TRICKLE: f64 = 0.1;
    const DEFAULT_MIN_CONCURRENT: u32 = 3;

    /// A token bucket that each success pays `ratio` tokens into.
    ///
    /// 0.1 lets one retry through for every ten successes; 0 leaves only the opening balance and
    /// the refill. Above 1,000 it is refused: a percentage in the wrong unit, rather than a wish.
    ///
    /// # Examples
    ///
    /// ```
    /// let budget = steadfast::RetryBudget::ratio(0.1);
    /// # let _ = budget;
    /// ```
    pub const fn ratio(ratio: f64) -> RetryBudget {
        RetryBudget::of(Kind::Ratio(ratio))
    }

    /// A cap on concurrent retries: at most this `share`, from 0 to 1, of the calls under way may
    /// be retrying, rounded down, and never fewer than
    /// [`min_concurrent`](RetryBudget::min_concurrent).
    ///
    /// A call is under way from its start to its end, its waits included; it is retrying from the
    /// moment a retry is granted until that retry's attempt has ended. This kind needs no successes
    /// to work, and it reacts to slowness as well as to failure; but when calls fail fast it
    /// limits the load far less than a ratio does. Each call counts itself in and out, so all
    /// threads write one shared word, where a full bucket is only read.
    ///
    /// # Examples
    ///
    /// ```
    /// // Envoy's own default is a fifth as well.
    /// let budget = steadfast::RetryBudget::concurrent(0.2);
    /// # let _ = budget;
    /// ```
    pub const fn concurrent(share: f64) -> RetryBudget {
        RetryBudget::of(Kind::Concurrent(share))
    }

    const fn of(kind: Kind) -> RetryBudget {
        RetryBudget {
            kind,
            cap: None,
            opening_balance: None,
            trickle: None,
            floor_per_second: None,
            min_concurrent: None,
        }
    }

    /// The most tokens that the bucket holds: the longest burst of retries after a quiet time.
    ///
    /// At least 1, the price of the cheapest retry. Below 2, an attempt without an answer is
    /// never tried again, since that costs two tokens.
    ///
    /// # Default
    ///
    /// 10: enough for the calls that are in flight when a connection breaks, too few to hurt.
    ///
    /// # Examples
    ///
    /// ```
    /// let budget = steadfast::RetryBudget::ratio(0.1).cap(100.0);
    /// # let _ = budget;
    /// ```
    pub const fn cap(mut self, tokens: f64) -> RetryBudget {
        self.cap = Some(tokens);
        self
    }

    /// The tokens in the bucket when it is made.
    ///
    /// # Default
    ///
    /// 10, or the [`cap`](RetryBudget::cap) if that is lower: a client that has just started has
    /// no successes yet, and should still survive a blip.
    ///
    /// # Examples
    ///
    /// ```
    /// let budget = steadfast::RetryBudget::ratio(0.1).opening_balance(0.0);
    /// # let _ = budget;
    /// ```
    pub const fn opening_balance(mut self, tokens: f64) -> RetryBudget {
        self.opening_balance = Some(tokens);
        self
    }

    /// Tokens that come in per second while the bucket holds less than the dearest retry costs,
    /// which is two.
    ///
    /// Without it a client whose every first attempt fails never earns a token, and stays locked
    /// out of retries that would have worked. It is credited when a retry asks, so what successes
    /// have paid in since comes first.
    ///
    /// # Default
    ///
    /// 0.1: a retry every ten seconds, which no dependency will notice.
    ///
    /// # Examples
    ///
    /// ```
    /// let budget = steadfast::RetryBudget::ratio(0.1).trickle(0.5);
    /// # let _ = budget;
    /// ```
    pub const fn trickle(mut self, tokens_per_second: f64) -> RetryBudget {
        self.trickle = Some(tokens_per_second);
        self
    }

    /// Lets no token in but those that successes pay, unless a
    /// [`floor_per_second`](RetryBudget::floor_per_second) is set.
    ///
    /// # Examples
    ///
    /// ```
    /// let budget = steadfast::RetryBudget::ratio(0.1).no_trickle();
    /// # let _ = budget;
    /// ```
    pub const fn no_trickle(self) -> RetryBudget {
        self.trickle(0.0)
    }

    /// Tokens that come in per second up to the [`cap`](RetryBudget::cap), whatever the traffic
    /// does. It takes the [`trickle`](RetryBudget::trickle)'s place.
    ///
    /// A floor suits a client with little traffic. It is off by default because it is a floor *per
    /// client*: what all of them may add together grows with the fleet.
    ///
    /// # Examples
    ///
    /// ```
    /// let budget = steadfast::RetryBudget::ratio(0.1).floor_per_second(1.0);
    /// # let _ = budget;
    /// ```
    pub const fn floor_per_second(mut self, tokens_per_second: f64) -> RetryBudget {
        self.floor_per_second = Some(tokens_per_second);
        self
    }

    /// How many concurrent retries are let through however few calls are under way.
    ///
    /// # Default
    ///
    /// 3, as in Envoy: a share of a few calls rounds down to nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// let budget = steadfast::RetryBudget::concurrent(0.2).min_concurrent(1);
    /// # let _ = budget;
    /// ```
    pub const fn min_concurrent(mut self, retries: u32) -> RetryBudget {
        self.min_concurrent = Some(retries);
        self
    }
}

impl Default for RetryBudget {
    fn default() -> RetryBudget {
        RetryBudget::ratio(Self::DEFAULT_RATIO)
    }
}

#[cfg(all(test, steadfast_loom))]
mod models;
