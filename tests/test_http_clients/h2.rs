//! HTTP/2, frame by frame: what no library lets a server do.
//!
//! Requests are told by the end of their streams; what they ask for is not
//! looked at.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::server::{Act, Form, Script, until_closed};

const PREFACE: usize = 24;

// Types of frames, flags and error codes (RFC 9113 §6 and §7).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u32 = 2;
const REFUSED_STREAM: u32 = 7;

/// `shop.Amount` with 17 pieces, after gRPC's prefix of five bytes.
const AMOUNT: &[u8] = &[0, 0, 0, 0, 2, 0x08, 17];

pub(crate) async fn connection(mut stream: TcpStream, script: &Script) -> io::Result<()> {
    stream.read_exact(&mut [0; PREFACE]).await?;
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload).await?;
        let (kind, flags) = (head[3], head[4]);
        let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let answer = match kind {
            SETTINGS if flags & ACK == 0 => frame(SETTINGS, ACK, 0, &[]),
            PING if flags & ACK == 0 => frame(PING, ACK, 0, &payload),
            HEADERS | DATA if flags & END_STREAM != 0 => {
                let act = script.next();
                match act {
                    Act::Reset => return stream.set_zero_linger(),
                    Act::Die => return until_closed(stream).await,
                    Act::Drain | Act::DrainBegun => {
                        let begun = act == Act::DrainBegun;
                        let last = if begun { id } else { id.saturating_sub(2) };
                        stream.write_all(&go_away(last)).await?;
                        stream.shutdown().await?;
                        return until_closed(stream).await;
                    }
                    _ => answer(script.form, act, id),
                }
            }
            _ => continue,
        };
        stream.write_all(&answer).await?;
    }
}

fn answer(form: Form, act: Act, id: u32) -> Vec<u8> {
    match (act, form) {
        (Act::Serve, Form::Grpc) => [
            frame(HEADERS, END_HEADERS, id, &grpc_head()),
            frame(DATA, 0, id, AMOUNT),
            frame(
                HEADERS,
                END_HEADERS | END_STREAM,
                id,
                &field("grpc-status", "0"),
            ),
        ]
        .concat(),
        (Act::Serve, _) => [
            frame(HEADERS, END_HEADERS, id, &status("200")),
            frame(DATA, END_STREAM, id, b"whole"),
        ]
        .concat(),
        (Act::Overload, Form::Grpc) => {
            let fields = [
                grpc_head(),
                field("grpc-status", "14"),
                field("grpc-retry-pushback-ms", "30"),
            ];
            frame(HEADERS, END_HEADERS | END_STREAM, id, &fields.concat())
        }
        (Act::Overload, _) => {
            let fields = [status("503"), field("retry-after-ms", "30")];
            frame(HEADERS, END_HEADERS | END_STREAM, id, &fields.concat())
        }
        (Act::Stall, _) => half(form, id),
        (Act::Break, _) => {
            let broken = frame(RST_STREAM, 0, id, &INTERNAL_ERROR.to_be_bytes());
            [half(form, id), broken].concat()
        }
        (Act::Refuse, _) => frame(RST_STREAM, 0, id, &REFUSED_STREAM.to_be_bytes()),
        (Act::Hang, _) => Vec::new(),
        (Act::Reset | Act::Die | Act::Drain | Act::DrainBegun, _) => {
            unreachable!("the connection is of no more use")
        }
    }
}

fn half(form: Form, id: u32) -> Vec<u8> {
    let (head, body) = match form {
        Form::Grpc => (grpc_head(), &AMOUNT[..6]),
        _ => (status("200"), &b"wh"[..]),
    };
    [
        frame(HEADERS, END_HEADERS, id, &head),
        frame(DATA, 0, id, body),
    ]
    .concat()
}

fn go_away(last: u32) -> Vec<u8> {
    let payload = [last.to_be_bytes(), NO_ERROR.to_be_bytes()].concat();
    frame(GOAWAY, 0, 0, &payload)
}

fn grpc_head() -> Vec<u8> {
    [status("200"), field("content-type", "application/grpc")].concat()
}

fn frame(kind: u8, flags: u8, id: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [&length[1..], &[kind, flags], &id.to_be_bytes()].concat();
    [&head, payload].concat()
}

/// A header field, not indexed and not compressed (RFC 7541 §6.2.2).
fn field(name: &str, value: &str) -> Vec<u8> {
    [&[0][..], &text(name), &text(value)].concat()
}

/// `:status`, whose name has the index 8.
fn status(code: &str) -> Vec<u8> {
    [&[8][..], &text(code)].concat()
}

fn text(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).unwrap();
    assert!(length < 127, "fits into a prefix of seven bits");
    [&[length], text.as_bytes()].concat()
}
