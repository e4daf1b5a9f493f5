//! A server that misbehaves as it is told.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::{h1, h2};

/// What becomes of a request that the server has read in whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// It is answered.
    Serve,
    /// The connection is reset.
    Reset,
    /// Nothing, for ever.
    Hang,
    /// The head of an answer, a part of its body, and then nothing, for ever.
    Stall,
    /// "Not now, come back in 30 ms."
    Overload,
    /// The head of an answer, a part of its body, and the end of it.
    Break,
    /// The connection is being drained: over HTTP/1 it closes, over HTTP/2 a
    /// `GOAWAY` says that the request was not looked at.
    Drain,
    /// As `Drain`, but the request was begun before the connection closed.
    /// HTTP/2 only.
    DrainBegun,
    /// The connection is silent from then on, without an end to it, as one to a
    /// machine that is gone. HTTP/2 only.
    Die,
    /// The stream is refused. HTTP/2 only.
    Refuse,
}

/// How the server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Http1,
    Http2,
    /// HTTP/2 with the answers of a gRPC method.
    Grpc,
}

/// Whether connections come through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    Open,
    /// Connecting is refused.
    Shut,
    /// Connecting takes for ever: nobody accepts, and the backlog is full.
    Stuck,
}

/// What the tasks of a server share.
pub(crate) struct Script {
    pub(crate) form: Form,
    act: Mutex<Act>,
    seen: AtomicUsize,
}

impl Script {
    /// Counts a request and says what to do with it.
    pub(crate) fn next(&self) -> Act {
        self.seen.fetch_add(1, Ordering::SeqCst);
        *self.act.lock().unwrap()
    }
}

/// Ends with all its connections when it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    script: Arc<Script>,
    waiting: Option<Waiting>,
    tasks: JoinSet<()>,
}

/// A port that is not served yet.
enum Waiting {
    Bound(TcpSocket),
    Full(TcpListener, Vec<TcpStream>),
}

impl Server {
    pub(crate) async fn start(form: Form, door: Door) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let mut server = Self {
            address: socket.local_addr()?,
            script: Arc::new(Script {
                form,
                act: Mutex::new(Act::Serve),
                seen: AtomicUsize::new(0),
            }),
            waiting: None,
            tasks: JoinSet::new(),
        };
        match door {
            Door::Open => server.serve(socket.listen(64)?),
            // The port stays taken, and whoever connects to it is refused.
            Door::Shut => server.waiting = Some(Waiting::Bound(socket)),
            Door::Stuck => {
                let listener = socket.listen(1)?;
                let crowd = fill(server.address).await?;
                server.waiting = Some(Waiting::Full(listener, crowd));
            }
        }
        Ok(server)
    }

    /// How many requests were read in whole.
    pub(crate) fn seen(&self) -> usize {
        self.script.seen.load(Ordering::SeqCst)
    }

    pub(crate) fn act(&self, act: Act) {
        *self.script.act.lock().unwrap() = act;
    }

    /// From now on everything is served.
    pub(crate) fn behave(&mut self) -> io::Result<()> {
        self.act(Act::Serve);
        match self.waiting.take() {
            None => {}
            Some(Waiting::Bound(socket)) => self.serve(socket.listen(64)?),
            Some(Waiting::Full(listener, crowd)) => {
                drop(crowd);
                self.serve(listener);
            }
        }
        Ok(())
    }

    fn serve(&mut self, listener: TcpListener) {
        let script = self.script.clone();
        self.tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let script = script.clone();
                connections.spawn(async move {
                    // A connection that the client breaks off is its own affair.
                    let _ = match script.form {
                        Form::Http1 => h1::connection(stream, &script).await,
                        Form::Http2 | Form::Grpc => h2::connection(stream, &script).await,
                    };
                });
            }
        });
    }
}

/// Connects until nobody gets through any more.
async fn fill(address: SocketAddr) -> io::Result<Vec<TcpStream>> {
    let mut crowd = Vec::new();
    while let Ok(stream) = timeout(Duration::from_millis(50), TcpStream::connect(address)).await {
        crowd.push(stream?);
        assert!(crowd.len() < 16, "this backlog has no end");
    }
    Ok(crowd)
}

/// Reads what comes until the client closes.
pub(crate) async fn until_closed(mut stream: TcpStream) -> io::Result<()> {
    tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
    Ok(())
}
