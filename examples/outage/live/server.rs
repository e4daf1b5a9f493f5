//! A dependency that can be killed: a line-based server on loopback, and the client that asks it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

/// The longest line that either side reads.
const LONGEST_LINE: u64 = 64;

/// A running server; [`kill`](Self::kill) ends it and every connection it holds.
pub(super) struct Server {
    task: JoinHandle<()>,
}

impl Server {
    /// Starts on the address's port; on any port if there is none yet or another program has taken
    /// it in the meantime, which `address` then names.
    ///
    /// # Errors
    ///
    /// When loopback has no port to give.
    pub(super) async fn start(address: &Address, work: Duration) -> io::Result<Self> {
        let listener = match TcpListener::bind(address.get()).await {
            Ok(listener) => listener,
            Err(_) => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?,
        };
        address
            .port
            .store(listener.local_addr()?.port(), Ordering::Relaxed);
        Ok(Self {
            task: tokio::spawn(serve(listener, work)),
        })
    }

    /// Returns once nobody listens any more.
    pub(super) async fn kill(self) {
        self.task.abort();
        // Cancelled is what it is meant to be.
        let _ = self.task.await;
    }
}

async fn serve(listener: TcpListener, work: Duration) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Ok((stream, _)) = listener.accept() => {
                connections.spawn(answer(stream, work));
            }
            Some(_) = connections.join_next() => {}
            // Out of sockets with nobody connected: some will come back.
            else => sleep(Duration::from_millis(1)).await,
        }
    }
}

/// One request per connection: a number on a line, answered by its double.
async fn answer(stream: TcpStream, work: Duration) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let number = read_number(&mut stream).await?;
    sleep(work).await;
    stream
        .write_all(format!("{}\n", number * 2).as_bytes())
        .await
}

/// Where the server is to be found, as a service discovery would tell.
#[derive(Clone, Default)]
pub(super) struct Address {
    port: Arc<AtomicU16>,
}

impl Address {
    fn get(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port.load(Ordering::Relaxed)).into()
    }
}

/// The client's side of the dependency; its clones share what they count.
#[derive(Clone, Default)]
pub(super) struct Client {
    pub(super) address: Address,
    pub(super) is_down: Arc<AtomicBool>,
    pub(super) sends_while_down: Arc<AtomicU64>,
}

impl Client {
    /// Asks the server, over a connection of its own.
    ///
    /// # Errors
    ///
    /// When there is no server, or its answer breaks off or makes no sense.
    pub(super) async fn ask(self, number: u64) -> io::Result<u64> {
        if self.is_down.load(Ordering::Relaxed) {
            self.sends_while_down.fetch_add(1, Ordering::Relaxed);
        }
        let stream = TcpStream::connect(self.address.get()).await?;
        // Where nobody listens, loopback can connect a socket to itself.
        if stream.local_addr()? == stream.peer_addr()? {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let mut stream = BufReader::new(stream);
        stream.write_all(format!("{number}\n").as_bytes()).await?;
        match read_number(&mut stream).await? {
            answer if answer == number * 2 => Ok(answer),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

async fn read_number(stream: &mut BufReader<TcpStream>) -> io::Result<u64> {
    let mut line = String::new();
    stream.take(LONGEST_LINE).read_line(&mut line).await?;
    match line.strip_suffix('\n') {
        Some(number) => number
            .parse()
            .map_err(|_| io::ErrorKind::InvalidData.into()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
