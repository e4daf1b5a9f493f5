//! A retry budget with a balance of the test's choice.

use crate::policy::Policy;

/// Sets the balance of a policy's retry budget, in tokens; above its cap, to its
/// cap. For all clones of the policy.
///
/// From there it goes on by its own rules: a success pays in, and the trickle
/// lets tokens in with tokio's time, by default one in ten seconds.
/// [`Policy::budget_balance`] reads it.
///
/// # Panics
///
/// If the policy has no budget, one of the
/// [concurrent](crate::RetryBudget::concurrent) kind, which has no balance, or
/// `tokens` is no amount: negative or not a number.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use steadfast::test_util::set_budget_balance;
/// use steadfast::{Policy, Stopped};
///
/// let policy = Policy::builder("inventory").max_attempts(3).build().unwrap();
/// set_budget_balance(&policy, 0.0);
/// let failed = policy.call(|| async { Err::<(), _>(std::io::Error::other("down")) }).await;
/// let error = failed.unwrap_err();
/// assert_eq!(error.attempts(), 1);
/// assert!(matches!(error.stopped(), Some(Stopped::BudgetExhausted)));
/// # }
/// ```
pub fn set_budget_balance<C, B>(policy: &Policy<C, B>, tokens: f64) {
    let name = policy.name();
    assert!(tokens >= 0.0, "{tokens} is no amount of tokens");
    let Some(budget) = &policy.shared().budget else {
        panic!("the policy `{name}` has no retry budget");
    };
    assert!(
        budget.set_balance(tokens),
        "the retry budget of `{name}` is a concurrent one and has no balance"
    );
}
