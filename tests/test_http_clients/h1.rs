//! HTTP/1.1, by hand.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::server::{Act, Script, until_closed};

pub(crate) const SERVED: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nwhole";
const HALF: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nwh";
const OVERLOADED: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    retry-after-ms: 30\r\ncontent-length: 0\r\n\r\n";

pub(crate) async fn connection(mut stream: TcpStream, script: &Script) -> io::Result<()> {
    let mut read = Vec::new();
    while request(&mut stream, &mut read).await? {
        match script.next() {
            Act::Serve => stream.write_all(SERVED).await?,
            Act::Overload => stream.write_all(OVERLOADED).await?,
            Act::Reset => return stream.set_zero_linger(),
            Act::Hang => return until_closed(stream).await,
            Act::Stall => {
                stream.write_all(HALF).await?;
                return until_closed(stream).await;
            }
            Act::Break => return stream.write_all(HALF).await,
            Act::Drain => return Ok(()),
            act @ (Act::DrainBegun | Act::Die | Act::Refuse) => panic!("HTTP/1 has no {act:?}"),
        }
    }
    Ok(())
}

/// Reads one request in whole; `false` once there is none.
async fn request(stream: &mut TcpStream, read: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        if let Some(length) = length_of_request(read) {
            read.drain(..length);
            return Ok(true);
        }
        if stream.read_buf(read).await? == 0 {
            return Ok(false);
        }
    }
}

/// Once all of it is there.
fn length_of_request(read: &[u8]) -> Option<usize> {
    let head = read.windows(4).position(|end| end == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&read[..head]).to_ascii_lowercase();
    let body = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"))
        .map_or(0, |length| length.trim().parse().unwrap());
    (read.len() >= head + body).then_some(head + body)
}
