//! A thousand sessions of one agent workflow, and a tool that is down. The "model" is scripted: it
//! calls the tool again at every error, as models do. What reaches the tool depends on where
//! retries and breaker stand.
//!
//! ```text
//! cargo run --release --example agent
//! cargo run --release --example agent -- --seed 7
//! ```
//!
//! On a paused clock, and the same for the same seed. Ends with 1 when a figure leaves its band, and
//! with 2 when the command line makes no sense.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use steadfast::{Backoff, BreakerConfig, CallCap, Error, ErrorKind, Policy};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tower::BoxError;

/// Sessions of the workflow; one begins every hundred milliseconds.
pub(crate) const SESSIONS: u64 = 1_000;
/// How often a model calls the tool before its framework ends the session.
pub(crate) const TURNS: u64 = 20;
/// The ceiling on the sends of a session, where there is one.
pub(crate) const CEILING: u32 = 5;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let seed = match &arguments[..] {
        [] => Some(1),
        [flag, seed] if flag == "--seed" => seed.parse().ok(),
        _ => None,
    };
    let Some(seed) = seed else {
        eprintln!("usage: agent [--seed NUMBER]");
        return ExitCode::from(2);
    };
    match measure(seed) {
        Ok(figures) => {
            println!("{}", table(&figures));
            let complaints = complaints(&figures);
            complaints.iter().for_each(|text| eprintln!("{text}"));
            ExitCode::from(u8::from(!complaints.is_empty()))
        }
        Err(error) => {
            eprintln!("no figures: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Where retries and breaker stand.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Arrangement {
    /// Each session retries by itself; nothing else.
    Alone,
    /// Each session has a stack of its own. Its breaker has always just been made.
    BreakerPerSession,
    /// As `Alone`, with a ceiling on the sends of a session.
    Capped,
    /// One stack for all sessions, and its errors go to the model.
    SharedBreaker,
    /// The tool owns the stack, and the model gets the final word as a result.
    InTheTool,
}

impl Arrangement {
    pub(crate) const ALL: [Self; 5] = [
        Self::Alone,
        Self::BreakerPerSession,
        Self::Capped,
        Self::SharedBreaker,
        Self::InTheTool,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Alone => "retries in each session",
            Self::BreakerPerSession => "... and a breaker in each session",
            Self::Capped => "... and a CallCap of 5 sends in each session",
            Self::SharedBreaker => "one breaker for all sessions",
            Self::InTheTool => "retries and breaker in the tool, for_model()",
        }
    }

    /// What a model may make of the tool, at most: sends for all sessions, and calls for each.
    pub(crate) const fn most(self) -> (u64, u64) {
        match self {
            Self::Alone => (SESSIONS * TURNS * 3, TURNS),
            // Two of its windows of ten seconds, and a probe now and then.
            Self::BreakerPerSession => (SESSIONS * 20, TURNS),
            Self::Capped => (SESSIONS * CEILING as u64, TURNS),
            Self::SharedBreaker => (40, TURNS),
            Self::InTheTool => (40, 1),
        }
    }

    /// And at least, or the figures prove nothing.
    pub(crate) const fn least(self) -> u64 {
        match self {
            Self::Alone => SESSIONS * TURNS * 3,
            Self::BreakerPerSession => SESSIONS * 5,
            Self::Capped => SESSIONS * CEILING as u64,
            Self::SharedBreaker | Self::InTheTool => 5,
        }
    }
}

/// What came of one arrangement.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Figures {
    pub(crate) arrangement: Arrangement,
    /// Requests that reached the tool.
    pub(crate) sends: u64,
    /// Calls that the models made of it.
    pub(crate) calls: u64,
    /// Calls that were turned away before they reached it.
    pub(crate) refused: u64,
    /// Sessions that were told in words what happened, and went on without the tool.
    pub(crate) told: u64,
}

/// Runs all arrangements.
///
/// # Errors
///
/// When a policy cannot be built.
pub(crate) fn measure(seed: u64) -> Result<Vec<Figures>, BoxError> {
    let all = Arrangement::ALL.into_iter();
    let all = all.map(|arrangement| {
        Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()?
            .block_on(run(arrangement, seed))
    });
    all.collect()
}

async fn run(arrangement: Arrangement, seed: u64) -> Result<Figures, BoxError> {
    let tool = Tool::default();
    let shared = policy(arrangement, seed)?;
    let mut sessions = JoinSet::new();
    for number in 0..SESSIONS {
        let policy = match arrangement {
            Arrangement::SharedBreaker | Arrangement::InTheTool => shared.clone(),
            _ => policy(arrangement, seed.wrapping_add(number))?,
        };
        let model = Model {
            tool: tool.clone(),
            policy,
            mood: SmallRng::seed_from_u64(seed ^ number.rotate_left(32)),
        };
        let session = async move {
            sleep(Duration::from_millis(number * 100)).await;
            match arrangement {
                Arrangement::Capped => CallCap::new(CEILING).wrap(model.works(false)).await,
                Arrangement::InTheTool => model.works(true).await,
                _ => model.works(false).await,
            }
        };
        sessions.spawn(session);
    }
    let mut figures = Figures {
        arrangement,
        sends: 0,
        calls: 0,
        refused: 0,
        told: 0,
    };
    while let Some(session) = sessions.join_next().await {
        let Session {
            calls,
            refused,
            told,
        } = session?;
        figures.calls += calls;
        figures.refused += refused;
        figures.told += u64::from(told);
    }
    figures.sends = tool.sends.load(Ordering::Relaxed);
    Ok(figures)
}

/// What a session's stack is, or that of all of them.
fn policy(arrangement: Arrangement, seed: u64) -> Result<Policy, BoxError> {
    let policy = Policy::builder("web search").max_attempts(3).backoff(
        Backoff::full_jitter(Duration::from_millis(100), Duration::from_secs(2)).seed(seed),
    );
    let policy = match arrangement {
        Arrangement::Alone | Arrangement::Capped => policy.no_breaker().no_retry_budget(),
        _ => policy.breaker(BreakerConfig::default().open_jitter(0.0)),
    };
    Ok(policy.build()?)
}

/// It is down, and takes fifty milliseconds to say so.
#[derive(Clone, Default)]
struct Tool {
    sends: Arc<AtomicU64>,
}

#[derive(Debug, thiserror::Error)]
#[error("connect to 10.0.0.7:8080: connection refused")]
struct Down;

impl Tool {
    async fn search(&self) -> Result<String, Down> {
        self.sends.fetch_add(1, Ordering::Relaxed);
        sleep(Duration::from_millis(50)).await;
        Err(Down)
    }
}

/// Calls the tool, and again at every error, until it has a result or no turns.
struct Model {
    tool: Tool,
    policy: Policy,
    mood: SmallRng,
}

struct Session {
    calls: u64,
    refused: u64,
    told: bool,
}

impl Model {
    /// With `in_words`, an error of the tool is a result: the model reads it and goes on.
    async fn works(mut self, in_words: bool) -> Session {
        let (mut calls, mut refused, mut told) = (0, 0, false);
        while calls < TURNS && !told {
            // It thinks for one to three seconds before each call.
            sleep(Duration::from_millis(self.mood.random_range(1_000..3_000))).await;
            calls += 1;
            let answer = self.policy.call(|| self.tool.search()).await;
            refused += u64::from(answer.as_ref().is_err_and(is_refused));
            let result = match answer {
                Err(error) if in_words => Ok(error.for_model()),
                answer => answer,
            };
            told = result.is_ok();
        }
        Session {
            calls,
            refused,
            told,
        }
    }
}

fn is_refused(error: &Error) -> bool {
    error.kind() == ErrorKind::Refused
}

fn complaints(figures: &[Figures]) -> Vec<String> {
    let all = figures.iter();
    let outside = all.filter(|figures| {
        let (sends, calls) = figures.arrangement.most();
        let band = figures.arrangement.least()..=sends;
        !band.contains(&figures.sends) || figures.calls > calls * SESSIONS
    });
    outside
        .map(|figures| format!("out of band: {figures:?}"))
        .collect()
}

/// The figures as a table, and what they mean.
pub(crate) fn table(figures: &[Figures]) -> String {
    let mut text = format!(
        "{SESSIONS} sessions, one tool that is down, a model that calls again at every error\n\n\
         {:<46}{:>10}{:>10}{:>10}{:>10}\n",
        "", "sends", "calls", "refused", "told"
    );
    text += &format!("{}\n", "-".repeat(86));
    for figures in figures {
        let Figures {
            arrangement,
            sends,
            calls,
            refused,
            told,
        } = figures;
        let name = arrangement.name();
        text += &format!("{name:<46}{sends:>10}{calls:>10}{refused:>10}{told:>10}\n");
    }
    text += "\n\
         sends: requests that reached the tool. calls: what the models asked of it. refused: calls\n\
         that were turned away before it. told: sessions that got the final word as a result.\n\n\
         A breaker in each session learns of the outage a thousand times, and forgets it as often. A\n\
         cap bounds each session, whatever the model does, but knows of no other. One breaker learns\n\
         once; but where its refusals reach the model as errors, the model goes on asking. In the\n\
         tool, or in the gateway before it, the retries are done, and the result says so.\n";
    text
}
