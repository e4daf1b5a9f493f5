//! One cell of the matrix: what a client makes of one misbehaviour.

use std::error::Error as StdError;
use std::future::Future;
use std::time::Duration;

use http::Method;
use steadfast::http::BodyCut;
use steadfast::{
    Backoff, Breaker, BreakerConfig, BreakerState, CallReport, Error, ErrorKind, Health, Policy,
    Reason, Stopped, Window,
};
use tokio::time::{Instant, sleep};

use crate::server::{Act, Door, Form, Server};

/// The limit that a cell is about. All others must not come near: the machine
/// may be busy.
const SHORT: Duration = Duration::from_millis(150);
pub(crate) const LONG: Duration = Duration::from_secs(20);
/// How long to wait for what must happen.
const PATIENCE: Duration = Duration::from_secs(20);

/// A client of the matrix: a stack over a real one.
pub(crate) trait Column: Sized {
    /// How the server speaks to it.
    const FORM: Form;

    fn connect(server: &Server, settings: Settings) -> impl Future<Output = Self>;
    fn breaker(&self) -> &Breaker;
    fn call(&self, method: Method) -> impl Future<Output = Seen>;
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// With a whole answer of this status.
    Answer(u16),
    /// With an answer whose body broke off.
    Broken,
    /// With an answer whose body came too slowly.
    Cut,
    /// Without an answer.
    Failed(ErrorKind),
    /// With a problem of the gateway's: its status and its code.
    Problem(u16, &'static str),
}

/// What is seen of a call: its end, and what the stack says of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) end: End,
    pub(crate) report: CallReport,
}

impl Seen {
    pub(crate) fn error(error: &Error, report: Option<CallReport>) -> Self {
        let end = End::Failed(error.kind());
        let report = report.unwrap();
        Self { end, report }
    }

    pub(crate) fn answer(status: u16, report: Option<CallReport>) -> Self {
        let end = End::Answer(status);
        let report = report.unwrap();
        Self { end, report }
    }

    /// The same call, whose body failed after all.
    pub(crate) fn broken(mut self, error: &(dyn StdError + 'static)) -> Self {
        let mut causes = std::iter::successors(Some(error), |&error| error.source());
        let is_cut = causes.any(<dyn StdError>::is::<BodyCut>);
        self.end = if is_cut { End::Cut } else { End::Broken };
        self
    }

    fn is_refusal(&self) -> bool {
        match self.end {
            End::Failed(kind) => kind == ErrorKind::Refused,
            End::Problem(_, code) => code == "dependency_temporarily_unavailable",
            _ => false,
        }
    }
}

/// What a cell settles of a policy.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    attempt_timeout: Duration,
    opens_after: u32,
    pub(crate) connect_timeout: Duration,
    /// How long to wait for the next part of a body.
    pub(crate) idle: Duration,
    /// How often an HTTP/2 connection is asked whether it is alive, and how
    /// long it has for the answer.
    pub(crate) keep_alive: Option<Duration>,
}

impl Settings {
    /// Two attempts, the second after 20 ms.
    pub(crate) fn policy<C>(self, classify: C) -> Policy<C> {
        Policy::builder("upstream")
            .deadline(LONG)
            .attempt_timeout(self.attempt_timeout)
            .max_attempts(2)
            .backoff(Backoff::fixed(MS * 20))
            .no_retry_budget()
            .breaker(
                BreakerConfig::failure_rate(0.5)
                    .window(Window::count(64))
                    .min_calls(self.opens_after)
                    .open_time(MS * 100)
                    .growth(1.0)
                    .open_jitter(0.0)
                    .no_ramp(),
            )
            .classify(classify)
            .build()
            .unwrap()
    }
}

const MS: Duration = Duration::from_millis(1);

/// What must come of one misbehaviour.
#[derive(Clone, Copy)]
pub(crate) struct Cell {
    act: Act,
    door: Door,
    attempts: (u32, u32),
    sends: u32,
    end: End,
    reason: Reason,
    health: Health,
    warm: bool,
}

impl Cell {
    /// Of requests that are read: a GET is sent twice, a POST once.
    pub(crate) fn of(act: Act) -> Self {
        Self {
            act,
            door: Door::Open,
            attempts: (2, 1),
            sends: 1,
            end: End::Failed(ErrorKind::Failed),
            reason: Reason::Text(""),
            health: Health::Failing,
            warm: false,
        }
    }

    /// Of connections that do not come about: both are tried twice.
    pub(crate) fn behind(door: Door) -> Self {
        Self {
            door,
            sends: 0,
            ..Self::of(Act::Serve)
        }
        .attempts(2, 2)
    }

    /// How often a GET and how often a POST is tried.
    pub(crate) fn attempts(mut self, get: u32, post: u32) -> Self {
        self.attempts = (get, post);
        self
    }

    /// As a rule one, or none where no connection comes about.
    pub(crate) fn sends_per_attempt(mut self, sends: u32) -> Self {
        self.sends = sends;
        self
    }

    pub(crate) fn ends(mut self, end: End) -> Self {
        self.end = end;
        self
    }

    /// The reason of the verdict on the last attempt.
    pub(crate) fn because(mut self, reason: impl Into<Reason>) -> Self {
        self.reason = reason.into();
        self
    }

    /// The breaker hears of it and counts neither success nor failure.
    pub(crate) fn no_evidence(mut self) -> Self {
        self.health = Health::Neutral;
        self
    }

    /// The calls go over a connection that has served one before.
    pub(crate) fn on_a_used_connection(mut self) -> Self {
        self.warm = true;
        self
    }

    pub(crate) async fn holds_for<C: Column>(self) {
        let mut server = Server::start(C::FORM, self.door).await.unwrap();
        let heard = u64::from(self.attempts.0 + self.attempts.1);
        let before = u64::from(self.warm);
        let client = C::connect(
            &server,
            Settings {
                attempt_timeout: short_if(self.act == Act::Hang),
                connect_timeout: short_if(self.door == Door::Stuck),
                idle: short_if(self.act == Act::Stall),
                opens_after: u32::try_from(before + heard + 1).unwrap(),
                keep_alive: (self.act == Act::Die).then_some(SHORT),
            },
        )
        .await;
        if self.warm {
            served(&client, &server, Method::GET).await;
        }
        server.act(self.act);

        self.call(&client, &server, Method::GET).await;
        self.call(&client, &server, Method::POST).await;
        let snapshot = client.breaker().snapshot();
        let failures = if self.health == Health::Failing {
            heard
        } else {
            0
        };
        assert_eq!(snapshot.calls(), before + failures, "{snapshot:?}");
        assert_eq!(snapshot.failures(), failures, "{snapshot:?}");
        assert_eq!(snapshot.state(), BreakerState::Closed);

        if self.health == Health::Failing {
            is_refused_after_one_more(&client, &server).await;
        }
        server.behave().unwrap();
        recovers(&client, &server, Method::GET).await;
        recovers(&client, &server, Method::POST).await;
    }

    async fn call<C: Column>(&self, client: &C, server: &Server, method: Method) {
        let is_get = method == Method::GET;
        let attempts = if is_get {
            self.attempts.0
        } else {
            self.attempts.1
        };
        let before = server.seen();
        let seen = client.call(method).await;

        let sends = (attempts * self.sends) as usize;
        assert_eq!(server.seen() - before, sends, "{seen:?}");
        assert_eq!(seen.end, self.end, "{seen:?}");
        assert_eq!(seen.report.attempts(), attempts, "{seen:?}");
        let verdict = seen.report.verdict().unwrap();
        if matches!(self.end, End::Broken | End::Cut) {
            // Judged by its head, and by the body only after the call.
            assert_eq!(verdict.health(), Health::Ok, "{seen:?}");
            return;
        }
        assert_eq!(verdict.reason(), self.reason, "{seen:?}");
        assert_eq!(verdict.health(), self.health, "{seen:?}");
        let stopped = match attempts {
            1 => Stopped::NotIdempotent,
            _ => Stopped::AttemptsExhausted,
        };
        assert_eq!(seen.report.stopped(), Some(stopped), "{seen:?}");
    }
}

/// A call that the server answers, in one attempt.
async fn served<C: Column>(client: &C, server: &Server, method: Method) {
    let before = server.seen();
    let seen = client.call(method).await;
    assert_eq!(seen.end, End::Answer(200), "{seen:?}");
    assert_eq!(server.seen() - before, 1, "{seen:?}");
}

/// One failure more opens the breaker. A machine that sleeps in between may
/// let a probe through, which fails.
async fn is_refused_after_one_more<C: Column>(client: &C, server: &Server) {
    let started = Instant::now();
    loop {
        let before = server.seen();
        let seen = client.call(Method::GET).await;
        if seen.is_refusal() && seen.report.attempts() == 0 {
            assert_eq!(server.seen(), before);
            return;
        }
        assert!(started.elapsed() < PATIENCE, "not refused: {seen:?}");
    }
}

/// Sooner or later the breaker is closed and one send answers a call.
async fn recovers<C: Column>(client: &C, server: &Server, method: Method) {
    let started = Instant::now();
    loop {
        let before = server.seen();
        let seen = client.call(method.clone()).await;
        let is_closed = client.breaker().state() == BreakerState::Closed;
        if is_closed && seen.end == End::Answer(200) && server.seen() - before == 1 {
            return;
        }
        assert!(started.elapsed() < PATIENCE, "not closed: {seen:?}");
        sleep(MS * 10).await;
    }
}

fn short_if(it_is_about_this: bool) -> Duration {
    if it_is_about_this { SHORT } else { LONG }
}
