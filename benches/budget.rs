//! What the retry budget adds. It has no door of its own: a loop with nothing
//! else in it pays in with each success, and draws with each retry. The
//! difference to the loop without a budget is the budget's cost.

mod support;

use criterion::Criterion;
use steadfast::attempt::AttemptLayer;
use steadfast::retry::RetryLayer;
use steadfast::{Backoff, RetryBudget};
use tower::ServiceBuilder;

use support::inner::Inner;
use support::{Ends, bench_call, runtime};

fn main() {
    support::run(&[budgets]);
}

fn budgets(c: &mut Criterion) {
    let runtime = runtime();
    let _context = runtime.enter();

    let mut group = c.benchmark_group("budget/success");
    let filling = RetryBudget::ratio(0.001).cap(1e9).opening_balance(0.0);
    for (name, budget) in [
        ("none", None),
        ("full", Some(RetryBudget::ratio(0.1))),
        ("filling", Some(filling)),
        ("concurrent", Some(RetryBudget::concurrent(0.2))),
    ] {
        let service = ServiceBuilder::new()
            .layer(retry(budget))
            .layer(AttemptLayer::new())
            .service(Inner::ready());
        bench_call(&mut group, name, service, 1, Ends::Answered);
    }
    drop(group);

    let mut group = c.benchmark_group("budget/one retry");
    for (name, budget) in [
        ("none", None),
        ("ratio", Some(RetryBudget::ratio(1.0))),
        ("concurrent", Some(RetryBudget::concurrent(0.2))),
    ] {
        let service = ServiceBuilder::new()
            .layer(retry(budget))
            .layer(AttemptLayer::new())
            .service(Inner::failing_every_other());
        bench_call(&mut group, name, service, 1, Ends::Answered);
    }
}

fn retry(budget: Option<RetryBudget>) -> RetryLayer {
    let mut builder = RetryLayer::builder(3).backoff(Backoff::none());
    if let Some(budget) = budget {
        builder = builder.retry_budget(budget);
    }
    builder.build().expect("valid settings")
}
