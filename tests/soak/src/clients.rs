//! The stacks that the traffic goes through, as callers and checks see them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use steadfast::{Breaker, BreakerState, Error, ErrorKind, PolicySnapshot};

use crate::dependency::{Answer, Dependency, Request};
use crate::ledger::Ledger;

pub type Call = Pin<Box<dyn Future<Output = Result<Answer, Error>> + Send>>;

/// The most calls at once of the fallback's first entry.
pub const FALLBACK_PLACES: u64 = 8;
/// Of one registry, which has room for fewer.
pub const KEYS: u32 = 60;

pub struct Client {
    pub name: &'static str,
    pub counts: Counts,
    pub ledger: Arc<Ledger>,
    pub dependency: Arc<Dependency>,
    /// The fallback's first entry.
    pub secondary: Option<Arc<Dependency>>,
    pub tokens: Tokens,
    pub shape: Shape,
    pub send: Box<dyn Fn(Request) -> Call + Send + Sync>,
    pub look: Box<dyn Fn() -> PolicySnapshot + Send + Sync>,
    pub handles: Option<Handles>,
}

impl Client {
    pub fn call(&self, request: Request) -> Call {
        (self.send)(request)
    }

    /// By the names of their policies, from the outside in.
    pub fn ledgers(&self) -> impl Iterator<Item = (&'static str, &Ledger)> {
        let inside = match &self.shape {
            Shape::Nesting(inside) => Some(("inside", &**inside)),
            _ => None,
        };
        [(self.name, &*self.ledger)].into_iter().chain(inside)
    }

    /// Its breakers that are not closed, by key and state.
    pub fn open_breakers(&self) -> Vec<String> {
        let snapshot = (self.look)();
        let open = snapshot.breakers().iter().filter(|breaker| {
            // The overflow breaker is asked again only when keys overflow again.
            let is_due = breaker.next_check().is_some_and(|wait| wait.is_zero());
            let waits_for_a_call = self.handles.is_none() && breaker.key().is_none() && is_due;
            breaker.state() != BreakerState::Closed && !waits_for_a_call
        });
        open.map(|breaker| {
            let key = breaker.key().unwrap_or("its breaker");
            format!("{key} is {:?}", breaker.state())
        })
        .collect()
    }
}

/// Where there is one breaker that can be steered.
pub struct Handles {
    pub breaker: Breaker,
    pub reconfigure: Box<dyn Fn() + Send + Sync>,
}

/// What the callers saw.
#[derive(Default)]
pub struct Counts {
    pub begun: AtomicU64,
    pub unpolled: AtomicU64,
    pub answered: AtomicU64,
    pub failed: AtomicU64,
    pub timed_out: AtomicU64,
    pub out_of_time: AtomicU64,
    pub refused: AtomicU64,
    pub cancelled: AtomicU64,
    pub panicked: AtomicU64,
}

impl Counts {
    pub fn hear(&self, result: &Result<Answer, Error>) {
        let counter = match result.as_ref().map_err(Error::kind) {
            Ok(_) => &self.answered,
            Err(ErrorKind::TimedOut) => &self.timed_out,
            Err(ErrorKind::DeadlineExceeded) => &self.out_of_time,
            Err(ErrorKind::Refused) => &self.refused,
            Err(_) => &self.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// What a retry budget must hold when nothing is under way.
#[derive(Clone, Copy)]
pub enum Tokens {
    Within(f64),
    /// Never full and never refilled: what came in and went out, to the millionth.
    Exactly {
        opening: f64,
        ratio: f64,
    },
    /// Room for so many retries.
    Room(f64),
}

/// How the client's calls are those that observers hear of.
#[derive(Clone)]
pub enum Shape {
    /// One for one, each ending as its caller sees it.
    Same,
    /// One for one, but the caller may get something else, or leave later.
    Outlasting,
    /// Some are several.
    Deferring,
    /// One for one, and their attempts are the calls of the ledger inside.
    Nesting(Arc<Ledger>),
}
