//! Callers, and all the ways in which they treat their calls.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

use steadfast::{CallCap, CallReport, Deadline, Error, Scope};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use crate::chance::{millis, one_in};
use crate::clients::{Call, Client, KEYS, Shape};
use crate::dependency::{Answer, Request, SENT};
use crate::ledger::PAID;

/// What the callers are to do.
#[derive(Default)]
pub struct Orders(AtomicU8);

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Treat calls in every way.
    Torment,
    /// Make calls and wait for them.
    Heal,
    Stop,
}

impl Orders {
    pub fn give(&self, order: Order) {
        self.0.store(order as u8, Ordering::Relaxed);
    }

    fn now(&self) -> Order {
        match self.0.load(Ordering::Relaxed) {
            0 => Order::Torment,
            1 => Order::Heal,
            _ => Order::Stop,
        }
    }
}

/// Makes one call after another, until it is told to stop. Each is a task.
pub async fn caller(clients: Arc<[Arc<Client>]>, orders: Arc<Orders>) {
    loop {
        let order = orders.now();
        if order == Order::Stop {
            return;
        }
        let client = Arc::clone(&clients[rand::random_range(0..clients.len())]);
        let torments = order == Order::Torment;
        let call = async move {
            match client.shape {
                Shape::Nesting(_) if torments && one_in(4) => capped(client).await,
                _ if torments => torment(client).await,
                _ => drop(watched(&client, client.call(request())).await),
            }
        };
        let task = tokio::spawn(PAID.scope(Cell::new(None), call));
        if torments && one_in(12) {
            sleep(millis(0..25)).await;
            task.abort();
        }
        // It may have panicked, as planned; others are counted.
        let _ = task.await;
        if one_in(2) {
            sleep(millis(0..10)).await;
        }
    }
}

fn request() -> Request {
    Request {
        key: rand::random_range(0..KEYS),
        copyable: !one_in(12),
        idempotent: !one_in(8),
        body: vec![7; rand::random_range(0..600)],
    }
}

async fn torment(client: Arc<Client>) {
    let mut call = client.call(request());
    if one_in(6) {
        let mut scope = Scope::current();
        if one_in(2) {
            scope = scope.with_deadline(Deadline::after(millis(0..120)));
        }
        if one_in(3) {
            scope = scope.no_retries();
        }
        if one_in(3) {
            scope = scope.not_idempotent();
        }
        call = Box::pin(scope.wrap(call));
    }
    if one_in(5) {
        let reported = CallReport::capture(call);
        call = Box::pin(async { reported.await.0 });
    }
    let mut call = watched(&client, call);
    match rand::random_range(0..100) {
        0..3 => drop(call),
        3..6 => {
            for _ in 0..rand::random_range(1..4) {
                let once =
                    std::future::poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_ready()));
                if once.await {
                    return;
                }
                yield_now().await;
            }
        }
        6..20 => drop(timeout(millis(0..60), call).await),
        _ => drop(call.await),
    }
}

/// Some calls under one cap, which counts as the dependency does.
async fn capped(client: Arc<Client>) {
    let cap = CallCap::new(rand::random_range(0..6));
    let calls = async {
        for _ in 0..rand::random_range(1..5) {
            drop(watched(&client, client.call(request())).await);
        }
        SENT.with(Cell::get)
    };
    let sent = SENT.scope(Cell::new(0), cap.wrap(calls)).await;
    assert_eq!(cap.sends(), sent, "sends by the cap, and by the dependency");
}

fn watched(client: &Arc<Client>, call: Call) -> Pin<Box<Watched>> {
    Box::pin(Watched {
        client: Arc::clone(client),
        call,
        now: Now::Unpolled,
    })
}

/// A call that tells how it ended, whatever came of it.
struct Watched {
    client: Arc<Client>,
    call: Call,
    now: Now,
}

#[derive(PartialEq, Eq)]
enum Now {
    Unpolled,
    Polled,
    Waiting,
    Over,
}

impl Future for Watched {
    type Output = Result<Answer, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let counts = &self.client.counts;
        if self.now == Now::Unpolled {
            counts.begun.fetch_add(1, Ordering::Relaxed);
        }
        self.now = Now::Polled;
        let polled = self.call.as_mut().poll(cx);
        self.now = Now::Waiting;
        if let Poll::Ready(result) = &polled {
            self.client.counts.hear(result);
            self.now = Now::Over;
        }
        polled
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let counts = &self.client.counts;
        let counter = match self.now {
            Now::Unpolled => &counts.unpolled,
            // The poll did not come back.
            Now::Polled => &counts.panicked,
            Now::Waiting => &counts.cancelled,
            Now::Over => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
