//! Copies of one body under any order of copying, reading and dropping.
//!
//! The model is the list of what the source has sent. Whatever is done, a copy
//! gets a part of it from the start, without a gap and without a repetition,
//! and one that says it is intact gets all of it.

#![cfg(feature = "http")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

use std::io;
use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::channel::{Channel, Sender};
use proptest::prelude::*;
use steadfast::http::{CopyBody, ReplayBody, ReplayError};
use tokio_test::task;

const CAP: usize = 8;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The source sends a frame of so many bytes.
    Send(usize),
    /// The source ends.
    End,
    /// The source fails.
    Fail,
    /// These act on one of the copies that are alive.
    Copy(usize),
    Read(usize),
    Drop(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0_usize..5).prop_map(Step::Send),
        1 => Just(Step::End),
        1 => Just(Step::Fail),
        4 => any::<usize>().prop_map(Step::Copy),
        12 => any::<usize>().prop_map(Step::Read),
        2 => any::<usize>().prop_map(Step::Drop),
    ];
    proptest::collection::vec(step, 1..60)
}

/// How the source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Open,
    Ended,
    Failed,
}

/// One copy, and how far it has got.
struct Copied {
    body: ReplayBody<Channel<Bytes, io::Error>>,
    got: usize,
    over: bool,
}

struct World {
    source: Option<Sender<Bytes, io::Error>>,
    state: Source,
    sent: Vec<Bytes>,
    copies: Vec<Copied>,
    /// How many frames have left the source, and how many bytes.
    taken: usize,
    bytes: usize,
    /// Whether somebody has met the source's error.
    failed: bool,
    /// Whether there was ever more than one copy.
    shared: bool,
}

impl World {
    fn new() -> Self {
        let (source, body) = Channel::new(64);
        let body = ReplayBody::new(body, CAP);
        Self {
            source: Some(source),
            state: Source::Open,
            sent: Vec::new(),
            copies: vec![Copied {
                body,
                got: 0,
                over: false,
            }],
            taken: 0,
            bytes: 0,
            failed: false,
            shared: false,
        }
    }

    fn step(&mut self, step: Step) {
        let alive = self.copies.len();
        match step {
            Step::Send(bytes) => {
                let data = Bytes::from(vec![self.sent.len() as u8; bytes]);
                if let Some(source) = &mut self.source {
                    // Fails where nobody can read on, which is as well.
                    if source.try_send(Frame::data(data.clone())).is_ok() {
                        self.sent.push(data);
                    }
                }
            }
            Step::End if self.state == Source::Open => {
                self.state = Source::Ended;
                self.source = None;
            }
            Step::Fail if self.state == Source::Open => {
                self.state = Source::Failed;
                if let Some(source) = self.source.take() {
                    source.abort(io::Error::other("gone"));
                }
            }
            Step::Copy(n) if alive > 0 && alive < 5 => self.copy(n % alive),
            Step::Read(n) if alive > 0 => {
                self.read(n % alive);
            }
            Step::Drop(n) if alive > 0 => {
                self.copies.swap_remove(n % alive);
            }
            _ => {}
        }
    }

    fn copy(&mut self, n: usize) {
        let copy = self.copies[n].body.copy();
        let kept = self.taken == 0 || (self.shared && self.copies.len() > 1);
        if self.bytes > CAP || self.failed {
            assert!(copy.is_none(), "of what is not kept");
        }
        if let Some(body) = copy {
            assert!(body.is_intact());
            self.shared = true;
            self.copies.push(Copied {
                body,
                got: 0,
                over: false,
            });
        } else {
            assert!(self.bytes > CAP || self.failed || !kept || !self.shared);
        }
    }

    /// Reads one frame; `false` if there was none.
    fn read(&mut self, n: usize) -> bool {
        let copy = &mut self.copies[n];
        let mut task = task::spawn(());
        let polled = task.enter(|cx, _| Pin::new(&mut copy.body).poll_frame(cx));
        let frame = match polled {
            _ if copy.over => {
                assert!(matches!(polled, Poll::Ready(None)), "after its end");
                assert!(copy.body.is_end_stream());
                return false;
            }
            Poll::Pending => {
                assert_eq!((copy.got, self.state), (self.sent.len(), Source::Open));
                return false;
            }
            Poll::Ready(None) => {
                assert_eq!((copy.got, self.state), (self.sent.len(), Source::Ended));
                assert!(copy.body.is_end_stream());
                copy.over = true;
                return false;
            }
            Poll::Ready(Some(Err(error))) => {
                match error.downcast_ref::<ReplayError>() {
                    Some(error) if error.is_outgrown() => {
                        assert!(self.shared);
                        let next = self.sent.get(self.taken).map_or(0, Bytes::len);
                        assert!(self.bytes + next > CAP, "not outgrown");
                        // It may have been this one's reading that was too much.
                        if copy.got == self.taken && self.taken < self.sent.len() {
                            self.taken += 1;
                            self.bytes += next;
                        }
                    }
                    Some(_) => assert!(self.failed),
                    None => {
                        assert_eq!((copy.got, self.state), (self.sent.len(), Source::Failed));
                        assert!(!std::mem::replace(&mut self.failed, true), "met twice");
                    }
                }
                copy.over = true;
                return false;
            }
            Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap(),
        };
        assert_eq!(frame, self.sent[copy.got]);
        copy.got += 1;
        if copy.got > self.taken {
            self.taken = copy.got;
            self.bytes += frame.len();
        }
        true
    }

    /// Reads all that is left, one copy after the other from its end of the
    /// row, so that the oldest comes last.
    fn finish(&mut self) {
        self.source = None;
        if self.state == Source::Open {
            self.state = Source::Ended;
        }
        while let Some(n) = self.copies.len().checked_sub(1) {
            let intact = self.copies[n].body.is_intact();
            while self.read(n) {}
            assert!(!self.read(n), "after its end");
            if intact {
                assert_eq!(self.copies[n].got, self.sent.len());
            }
            self.copies.pop();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn copies_get_what_was_sent_and_intact_ones_get_all(steps in steps()) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        world.finish();
    }
}

#[test]
fn a_copy_that_waits_for_its_first_frame_has_begun_and_promises_nothing() {
    let mut world = World::new();
    // The second waits, the first reads and is then the one that began last.
    for step in [Step::Copy(0), Step::Read(1)] {
        world.step(step);
    }
    assert!(!world.copies[1].body.is_intact());
    for step in [2, 3, 4].map(Step::Send) {
        world.step(step);
    }
    world.step(Step::Read(0));
    world.finish();
}
