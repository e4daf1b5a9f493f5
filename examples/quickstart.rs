//! A dependency that fails, behind a policy and a fallback.
//!
//! `cargo run --example quickstart`

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use steadfast::{Backoff, BreakerConfig, Error, Policy, RetryBudget, ServiceBuilderExt, Window};
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let policy = Policy::builder("inventory")
        .deadline(Duration::from_secs(2))
        .attempt_timeout(Duration::from_millis(500))
        .max_attempts(3)
        .backoff(Backoff::full_jitter(
            Duration::from_millis(100),
            Duration::from_secs(20),
        ))
        .retry_budget(RetryBudget::ratio(0.1))
        .breaker(
            BreakerConfig::failure_rate(0.5)
                .window(Window::time(Duration::from_secs(10)))
                .min_calls(4),
        )
        .build()?;
    println!("{}", policy.describe());

    // Answers the first two items, then breaks.
    let sent = AtomicU32::new(0);
    let inventory = service_fn(|item: &'static str| {
        let works = sent.fetch_add(1, Ordering::Relaxed) < 2;
        async move {
            if works {
                Ok(format!("12 × {item}"))
            } else {
                Err("connection reset")
            }
        }
    });

    let client = ServiceBuilder::new()
        .fallback(|error: &Error| {
            let answer = format!("stock unknown ({error})");
            async move { Ok::<_, BoxError>(answer) }
        })
        .resilience(policy.clone())
        .service(inventory);

    for item in ["teapots", "cups", "saucers", "spoons", "trays", "kettles"] {
        println!("{item}: {}", client.clone().oneshot(item).await?);
    }
    println!(
        "\nsent {} times for 6 items; the breaker is {:?}",
        sent.load(Ordering::Relaxed),
        policy.breaker().map(steadfast::Breaker::state)
    );
    Ok(())
}
