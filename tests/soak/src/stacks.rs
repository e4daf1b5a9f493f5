//! How the stacks are made: each kind of budget, breaker and stage.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use steadfast::breaker::BreakerSettings;
use steadfast::defer::DeferLayer;
use steadfast::fallback::{self, FallbackLayer};
use steadfast::{
    Backoff, BreakerConfig, Breakers, Error, LatePermit, Permit, Policy, PolicyBuilder,
    PolicyChanges, PolicySnapshot, RetryBudget, ServiceBuilderExt, Window,
};
use tower::{Service, ServiceBuilder, ServiceExt};

use crate::chance::{one_in, panic_once_in};
use crate::clients::{Call, Client, Counts, FALLBACK_PLACES, Handles, Shape, Tokens};
use crate::dependency::{Answer, Class, Climate, Dependency, Endpoint, Fault, Request};
use crate::judge::Judge;
use crate::ledger::{Ledger, Unreliable};

const MOST_KEYS: usize = 24;

const MILLI: Duration = Duration::from_millis(1);

pub fn all(climate: &Arc<Climate>) -> Vec<Arc<Client>> {
    let make = Make { climate };
    let clients = vec![
        make.plain(),
        make.tokens(),
        make.concurrent(),
        make.keyed(),
        make.covered(),
        make.deferring(),
        make.nesting(),
        make.streams(),
    ];
    clients.into_iter().map(Arc::new).collect()
}

/// Short times, so that every breaker opens and closes many times a minute.
fn times(config: BreakerConfig) -> BreakerConfig {
    let ramp = if one_in(3) { 0 } else { 300 };
    config
        .open_time(80 * MILLI)
        .max_open_time(600 * MILLI)
        .max_hint_open(200 * MILLI)
        .probes(rand::random_range(1..=3))
        .probe_lease(300 * MILLI)
        .ramp(ramp * MILLI)
}

fn by_rate() -> BreakerConfig {
    let config = BreakerConfig::failure_rate(rand::random_range(0.4..0.8))
        .window(Window::time(1000 * MILLI))
        .min_calls(rand::random_range(5..30));
    times(config.last_failed(rand::random_range(4..8)))
}

fn by_run() -> BreakerConfig {
    times(BreakerConfig::consecutive(rand::random_range(3..8)))
}

fn by_count_and_slowness() -> BreakerConfig {
    let config = BreakerConfig::failure_rate(rand::random_range(0.4..0.8))
        .window(Window::count(40))
        .min_calls(20)
        .slow_calls(30 * MILLI, 0.5);
    let config = times(config);
    if one_in(4) {
        config
    } else {
        config.concurrency_limit(rand::random_range(4..16))
    }
}

struct Make<'a> {
    climate: &'a Arc<Climate>,
}

/// A policy, what it is asked of, and what is heard of it.
struct Parts {
    ledger: Arc<Ledger>,
    dependency: Arc<Dependency>,
    endpoint: Endpoint,
}

impl Make<'_> {
    fn parts(&self) -> Parts {
        let dependency = Dependency::new(self.climate);
        Parts {
            ledger: Ledger::new(),
            endpoint: Endpoint::new(&dependency),
            dependency,
        }
    }

    fn policy(&self, name: &'static str, ledger: &Arc<Ledger>) -> PolicyBuilder<Judge> {
        Policy::builder(name)
            .classify(Judge::new(self.climate))
            .deadline(250 * MILLI)
            .attempt_timeout(40 * MILLI)
            .max_attempts(3)
            .backoff(Backoff::full_jitter(3 * MILLI, 20 * MILLI))
            .observer(Unreliable::new(self.climate))
            .observer(Arc::clone(ledger) as _)
    }

    fn plain(&self) -> Client {
        let parts = self.parts();
        let policy = self.policy("plain", &parts.ledger).breaker(by_rate());
        let budget = RetryBudget::ratio(0.1).cap(10.0).trickle(2.0);
        self.over_one_policy(
            policy.retry_budget(budget),
            parts,
            Tokens::Within(10.0),
            by_rate,
        )
    }

    fn tokens(&self) -> Client {
        let parts = self.parts();
        let (opening, ratio) = (1_000_000.0, 0.3);
        let budget = RetryBudget::ratio(ratio)
            .cap(1_000_000_000.0)
            .opening_balance(opening)
            .no_trickle();
        let policy = self.policy("tokens", &parts.ledger).breaker(by_run());
        let policy = policy.retry_budget(budget).max_attempts(4);
        self.over_one_policy(policy, parts, Tokens::Exactly { opening, ratio }, by_run)
    }

    fn concurrent(&self) -> Client {
        let parts = self.parts();
        let policy = self.policy("concurrent", &parts.ledger);
        let policy = policy
            .breaker(by_count_and_slowness())
            .no_attempt_timeout()
            .retry_budget(RetryBudget::concurrent(0.2).min_concurrent(3));
        self.over_one_policy(policy, parts, Tokens::Room(3.0), by_count_and_slowness)
    }

    fn over_one_policy(
        &self,
        policy: PolicyBuilder<Judge>,
        parts: Parts,
        tokens: Tokens,
        config: fn() -> BreakerConfig,
    ) -> Client {
        let policy = policy.build().expect("settings that work");
        let service = ServiceBuilder::new()
            .resilience(policy.clone())
            .service(parts.endpoint);
        Client {
            tokens,
            ..client(policy, service, parts.ledger, parts.dependency, config)
        }
    }

    fn keyed(&self) -> Client {
        let parts = self.parts();
        let idle = Duration::from_millis(500);
        let registry = Breakers::<u32>::bounded("keyed", by_run(), MOST_KEYS, idle)
            .expect("settings that work")
            .naming_keys(|key| format!("key {key}"));
        let policy = self
            .policy("keyed", &parts.ledger)
            .breakers(registry, |request: &Request| &request.key)
            .build()
            .expect("settings that work");
        let service = ServiceBuilder::new()
            .resilience(policy.clone())
            .service(parts.endpoint);
        Client {
            name: "keyed",
            counts: Counts::default(),
            ledger: parts.ledger,
            dependency: parts.dependency,
            secondary: None,
            tokens: Tokens::Within(10.0),
            shape: Shape::Same,
            send: Box::new(move |request| Box::pin(service.clone().oneshot(request))),
            look: looks(policy),
            handles: None,
        }
    }

    fn covered(&self) -> Client {
        let parts = self.parts();
        let policy = self.policy("covered", &parts.ledger).breaker(by_run());
        let policy = policy.build().expect("settings that work");
        let secondary = Dependency::new(self.climate);
        let climate = Arc::clone(self.climate);
        let last_resort = fallback::with(move |_: &Error| {
            let chaos = climate.is_chaos();
            async move {
                if chaos {
                    panic_once_in(500);
                }
                if one_in(2) {
                    Ok(Answer(Class::Success))
                } else {
                    Err(Fault(Class::Blocked))
                }
            }
        });
        let chain = fallback::service(Endpoint::new(&secondary))
            .limit(usize::try_from(FALLBACK_PLACES).expect("a few"))
            .or(last_resort);
        let service = ServiceBuilder::new()
            .layer(
                FallbackLayer::new(chain)
                    .within(300 * MILLI)
                    .reserve(80 * MILLI),
            )
            .resilience(policy.clone())
            .service(parts.endpoint);
        Client {
            secondary: Some(secondary),
            shape: Shape::Outlasting,
            ..client(policy, service, parts.ledger, parts.dependency, by_run)
        }
    }

    fn deferring(&self) -> Client {
        let parts = self.parts();
        let policy = self
            .policy("deferring", &parts.ledger)
            .deadline(3000 * MILLI)
            .breaker(by_rate())
            .build()
            .expect("settings that work");
        let bounds = DeferLayer::new().calls(12).longest(1000 * MILLI);
        let service = ServiceBuilder::new()
            .deferring_resilience(policy.clone(), bounds)
            .service(parts.endpoint);
        Client {
            shape: Shape::Deferring,
            ..client(policy, service, parts.ledger, parts.dependency, by_rate)
        }
    }

    fn nesting(&self) -> Client {
        let parts = self.parts();
        let inside = self
            .policy("inside", &parts.ledger)
            .breaker(by_run())
            .build()
            .expect("settings that work");
        let ledger = Ledger::new();
        let policy = self
            .policy("nesting", &ledger)
            .attempt_timeout(120 * MILLI)
            .breaker(by_rate())
            .build()
            .expect("settings that work");
        let service = ServiceBuilder::new()
            .resilience(policy.clone())
            .resilience(inside)
            .service(parts.endpoint);
        Client {
            shape: Shape::Nesting(parts.ledger),
            ..client(policy, service, ledger, parts.dependency, by_rate)
        }
    }

    /// Calls without a service, whose answers have an end that comes later.
    fn streams(&self) -> Client {
        let parts = self.parts();
        let policy = self
            .policy("streams", &parts.ledger)
            .breaker(by_count_and_slowness())
            .build()
            .expect("settings that work");
        let dependency = Arc::clone(&parts.dependency);
        let call = {
            let policy = policy.clone();
            move |_: Request| -> Call {
                let (policy, dependency) = (policy.clone(), Arc::clone(&dependency));
                Box::pin(async move {
                    let head = policy.call(|| {
                        dependency.asked.fetch_add(1, Ordering::Relaxed);
                        let work = Arc::clone(&dependency).work();
                        async move {
                            let late = LatePermit::claim();
                            work.await.map(|answer| (answer, late))
                        }
                    });
                    let (answer, late) = head.await?;
                    if let Some(permit) = late.and_then(|late| late.take()) {
                        read_on(permit).await;
                    }
                    Ok(answer)
                })
            }
        };
        Client {
            name: "streams",
            counts: Counts::default(),
            ledger: parts.ledger,
            dependency: parts.dependency,
            secondary: None,
            tokens: Tokens::Within(10.0),
            shape: Shape::Outlasting,
            send: Box::new(call),
            look: looks(policy.clone()),
            handles: Some(handles(policy, by_count_and_slowness)),
        }
    }
}

/// The rest of an answer, with its permit.
async fn read_on(permit: Permit) {
    tokio::time::sleep(rand::random_range(0..5) * MILLI).await;
    match rand::random_range(0..20) {
        0 => drop(permit),
        1 => permit.neutral(),
        _ => permit.success(),
    }
}

fn client<S>(
    policy: Policy<Judge>,
    service: S,
    ledger: Arc<Ledger>,
    dependency: Arc<Dependency>,
    config: fn() -> BreakerConfig,
) -> Client
where
    S: Service<Request, Response = Answer, Error = Error> + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    Client {
        name: policy.name(),
        counts: Counts::default(),
        ledger,
        dependency,
        secondary: None,
        tokens: Tokens::Within(10.0),
        shape: Shape::Same,
        send: Box::new(move |request| Box::pin(service.clone().oneshot(request))),
        look: looks(policy.clone()),
        handles: Some(handles(policy, config)),
    }
}

fn looks<B>(policy: Policy<Judge, B>) -> Box<dyn Fn() -> PolicySnapshot + Send + Sync>
where
    B: BreakerSettings + Send + Sync + 'static,
{
    Box::new(move || policy.snapshot())
}

fn handles(policy: Policy<Judge>, config: fn() -> BreakerConfig) -> Handles {
    Handles {
        breaker: policy.breaker().expect("one breaker").clone(),
        reconfigure: Box::new(move || {
            let changes = PolicyChanges::new()
                .max_attempts(rand::random_range(1..5))
                .breaker(config());
            policy.reconfigure(changes).expect("settings that work");
        }),
    }
}
