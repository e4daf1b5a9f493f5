//! A dependency that fares well and badly by turns, and what is asked of it.

use std::cell::Cell;
use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::time::{Sleep, sleep};
use tower::Service;

use crate::chance::{millis, one_in, panic_once_in};

tokio::task_local! {
    /// What was sent under a cap, by the dependency's own count.
    pub static SENT: Cell<u32>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    Fair,
    Mixed,
    Slow,
    Outage,
    Hanging,
}

impl Weather {
    const ALL: [Self; 5] = [
        Self::Fair,
        Self::Mixed,
        Self::Slow,
        Self::Outage,
        Self::Hanging,
    ];
}

/// How dependencies fare, and whether anything odd happens besides.
#[derive(Default)]
pub struct Climate {
    weather: AtomicU8,
    chaos: AtomicBool,
}

impl Climate {
    pub fn turn(&self, weather: Weather) {
        self.weather.store(weather as u8, Ordering::Relaxed);
    }

    pub fn weather(&self) -> Weather {
        Weather::ALL[usize::from(self.weather.load(Ordering::Relaxed))]
    }

    pub fn let_chaos(&self, reign: bool) {
        self.chaos.store(reign, Ordering::Relaxed);
    }

    pub fn is_chaos(&self) -> bool {
        self.chaos.load(Ordering::Relaxed)
    }
}

#[derive(Clone)]
pub struct Request {
    pub key: u32,
    pub copyable: bool,
    pub idempotent: bool,
    /// Held by every copy.
    pub body: Vec<u8>,
}

/// What an answer or an error means.
#[derive(Clone, Copy, Debug)]
pub enum Class {
    Success,
    Terminal,
    Transient,
    Overloaded,
    Unreachable,
    Ambiguous,
    Throttled,
    Blocked,
}

#[derive(Debug)]
pub struct Answer(pub Class);

#[derive(Debug)]
pub struct Fault(pub Class);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl StdError for Fault {}

pub struct Dependency {
    climate: Arc<Climate>,
    /// Attempts that asked whether it is ready.
    pub asked: AtomicU64,
    pub sent: AtomicU64,
    pub in_flight: AtomicU64,
}

impl Dependency {
    pub fn new(climate: &Arc<Climate>) -> Arc<Self> {
        Arc::new(Self {
            climate: Arc::clone(climate),
            asked: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
        })
    }

    pub async fn work(self: Arc<Self>) -> Result<Answer, Fault> {
        let _working = Working::begin(&self);
        let chaos = self.climate.is_chaos();
        if chaos {
            panic_once_in(400);
            if one_in(300) {
                std::future::pending::<()>().await;
            }
        }
        let (wait, failing_of_1000) = match self.climate.weather() {
            Weather::Hanging => std::future::pending().await,
            Weather::Fair => (millis(0..4), if chaos { 5 } else { 0 }),
            Weather::Mixed => (millis(0..12), 300),
            Weather::Slow => (millis(15..60), 20),
            Weather::Outage => (millis(0..3), 980),
        };
        if !wait.is_zero() {
            sleep(wait).await;
        }
        if chaos {
            panic_once_in(1000);
        }
        let class = if rand::random_range(0..1000) < failing_of_1000 {
            match rand::random_range(0..8) {
                0..=2 => Class::Transient,
                3 => Class::Overloaded,
                4 => Class::Unreachable,
                5 => Class::Ambiguous,
                6 => Class::Throttled,
                _ => Class::Blocked,
            }
        } else if one_in(20) {
            Class::Terminal
        } else {
            return Ok(Answer(Class::Success));
        };
        if one_in(2) {
            Ok(Answer(class))
        } else {
            Err(Fault(class))
        }
    }
}

/// While it lives, the dependency works on a request.
struct Working(Arc<Dependency>);

impl Working {
    fn begin(dependency: &Arc<Dependency>) -> Self {
        dependency.sent.fetch_add(1, Ordering::Relaxed);
        dependency.in_flight.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(dependency))
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The dependency as a service, sometimes slow to become ready.
pub struct Endpoint {
    dependency: Arc<Dependency>,
    asked: Option<Asked>,
}

enum Asked {
    Ready,
    After(Pin<Box<Sleep>>),
    Never,
    Fails,
}

impl Endpoint {
    pub fn new(dependency: &Arc<Dependency>) -> Self {
        Self {
            dependency: Arc::clone(dependency),
            asked: None,
        }
    }

    fn ask(&self) -> Asked {
        self.dependency.asked.fetch_add(1, Ordering::Relaxed);
        if !self.dependency.climate.is_chaos() {
            return Asked::Ready;
        }
        panic_once_in(2000);
        match rand::random_range(0..1000) {
            0..50 => Asked::After(Box::pin(sleep(millis(1..30)))),
            50..53 => Asked::Never,
            53..55 => Asked::Fails,
            _ => Asked::Ready,
        }
    }
}

/// A clone is not ready because the original was.
impl Clone for Endpoint {
    fn clone(&self) -> Self {
        Self::new(&self.dependency)
    }
}

impl Service<Request> for Endpoint {
    type Response = Answer;
    type Error = Fault;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Fault>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        if self.asked.is_none() {
            self.asked = Some(self.ask());
        }
        match &mut self.asked {
            Some(Asked::After(wait)) => {
                ready!(wait.as_mut().poll(cx));
                self.asked = Some(Asked::Ready);
                Poll::Ready(Ok(()))
            }
            Some(Asked::Never) => Poll::Pending,
            Some(Asked::Fails) => Poll::Ready(Err(Fault(Class::Unreachable))),
            Some(Asked::Ready) | None => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, request: Request) -> Self::Future {
        self.asked = None;
        if self.dependency.climate.is_chaos() {
            panic_once_in(2000);
        }
        // Absent where no cap is.
        let _ = SENT.try_with(|sent| sent.set(sent.get() + 1));
        let work = Arc::clone(&self.dependency).work();
        Box::pin(async move {
            let answer = work.await;
            drop(request.body);
            answer
        })
    }
}
