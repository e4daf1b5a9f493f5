//! A dependency that can be broken, for the gateway to stand in front of.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use tokio::net::TcpListener;

/// How it behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Works,
    /// Every request gets a 500.
    Fails,
    /// Takes every request and never answers.
    Hangs,
}

impl Mode {
    const ALL: [Self; 3] = [Self::Works, Self::Fails, Self::Hangs];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::Fails => "fails",
            Self::Hangs => "hangs",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == name)
    }
}

/// A running server.
#[derive(Clone)]
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    name: &'static str,
    shared: Arc<Shared>,
}

struct Shared {
    name: &'static str,
    mode: AtomicU8,
    requests: AtomicUsize,
}

impl Upstream {
    pub(crate) async fn start(name: &'static str) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let upstream = Self {
            address: listener.local_addr()?,
            name,
            shared: Arc::new(Shared {
                name,
                mode: AtomicU8::new(Mode::Works as u8),
                requests: AtomicUsize::new(0),
            }),
        };
        let app = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&upstream.shared));
        tokio::spawn(async move { axum::serve(listener, app).await });
        Ok(upstream)
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.shared.mode.store(mode as u8, Ordering::Relaxed);
    }

    pub(crate) fn mode(&self) -> Mode {
        let mode = self.shared.mode.load(Ordering::Relaxed);
        let known = Mode::ALL.into_iter().find(|known| *known as u8 == mode);
        known.unwrap_or(Mode::Works)
    }

    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    /// How many requests have reached it.
    pub(crate) fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::Relaxed)
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    shared.requests.fetch_add(1, Ordering::Relaxed);
    let mode = shared.mode.load(Ordering::Relaxed);
    if mode == Mode::Fails as u8 {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    if mode == Mode::Hangs as u8 {
        tokio::time::sleep(Duration::from_secs(3600)).await;
    }
    format!("{} from {}", request.uri().path(), shared.name).into_response()
}
