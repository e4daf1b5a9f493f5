//! Request bodies that are kept while they are sent.

#![cfg(feature = "http")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use http_body::{Body, Frame, SizeHint};
use http_body_util::channel::{Channel, Sender};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use steadfast::http::{CopyBody, ReplayBody, ReplayError, ReplayLayer, ReplayService};
use tokio::sync::mpsc;
use tokio_test::{assert_pending, assert_ready, task};
use tower::BoxError;

const CAP: usize = 1024;

type Stream = Channel<Bytes, io::Error>;
type Source = Sender<Bytes, io::Error>;

/// A body of unknown length, and where its frames come from.
fn stream() -> (Source, ReplayBody<Stream>) {
    stream_with_cap(CAP)
}

fn stream_with_cap(cap: usize) -> (Source, ReplayBody<Stream>) {
    let (source, body) = Channel::new(16);
    (source, ReplayBody::new(body, cap))
}

fn give(source: &mut Source, data: &'static str) {
    source.try_send(Frame::data(data.into())).unwrap();
}

/// A body whose frames are all there, of unknown length.
struct Frames<I>(I);

impl<I: Iterator<Item = &'static str> + Unpin> Body for Frames<I> {
    type Data = Bytes;
    type Error = Infallible;
    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.next().map(|data| Ok(Frame::data(data.into()))))
    }
}

fn trailers() -> HeaderMap {
    HeaderMap::from_iter([(http::header::ETAG, HeaderValue::from_static("checksum"))])
}

/// What the next frame is, if there is one at once: its data, or the name of
/// what else it is.
fn next<B>(body: &mut ReplayBody<B>) -> Result<&'static str, ReplayError>
where
    ReplayBody<B>: Body<Data = Bytes, Error = BoxError> + Unpin,
{
    let mut task = task::spawn(());
    match task.enter(|cx, _| Pin::new(body).poll_frame(cx)) {
        Poll::Pending => Ok("(pending)"),
        Poll::Ready(None) => Ok("(end)"),
        Poll::Ready(Some(Err(error))) => match error.downcast::<ReplayError>() {
            Ok(error) => Err(*error),
            Err(_) => Ok("(error)"),
        },
        Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
            Ok(data) => Ok(String::from_utf8(data.to_vec()).unwrap().leak()),
            Err(_) => Ok("(trailers)"),
        },
    }
}

/// All frames that are there at once.
fn frames<B>(body: &mut ReplayBody<B>) -> Vec<&'static str>
where
    ReplayBody<B>: Body<Data = Bytes, Error = BoxError> + Unpin,
{
    let mut frames = Vec::new();
    loop {
        let frame = next(body).unwrap();
        frames.push(frame);
        if ["(pending)", "(end)", "(error)"].contains(&frame) {
            return frames;
        }
    }
}

// ---- one attempt after another ---------------------------------------------------

#[test]
fn a_copy_sends_what_was_read_and_goes_on_where_that_stopped() {
    let (mut source, mut first) = stream();
    let mut second = first.copy().unwrap();
    give(&mut source, "a");
    assert_eq!(frames(&mut first), ["a", "(pending)"]);
    drop(first);
    give(&mut source, "b");
    let mut third = second.copy().unwrap();
    assert_eq!(frames(&mut second), ["a", "b", "(pending)"]);
    drop(second);
    give(&mut source, "c");
    drop(source);
    assert!(third.is_intact());
    assert_eq!(frames(&mut third), ["a", "b", "c", "(end)"]);
}

#[test]
fn a_body_that_no_attempt_has_read_is_sent_once_by_the_next() {
    for polled in [false, true] {
        let (mut source, mut first) = stream();
        let mut second = first.copy().unwrap();
        if polled {
            assert_eq!(next(&mut first).unwrap(), "(pending)");
        }
        drop(first);
        give(&mut source, "abc");
        drop(source);
        assert_eq!(frames(&mut second), ["abc", "(end)"]);
        assert_eq!(frames(&mut second), ["(end)"]);
    }
}

#[test]
fn only_a_copy_of_which_nothing_was_read_is_intact() {
    let (mut source, mut first) = stream();
    let second = first.copy().unwrap();
    assert!(first.is_intact() && second.is_intact());
    give(&mut source, "a");
    assert_eq!(next(&mut first).unwrap(), "a");
    assert!(!first.is_intact() && second.is_intact());
    // It can be copied from the start all the same.
    assert!(first.copy().unwrap().is_intact());
}

#[test]
fn trailers_are_sent_again_and_only_once_an_attempt() {
    let (mut source, mut first) = stream();
    give(&mut source, "a");
    source.try_send(Frame::trailers(trailers())).unwrap();
    drop(source);
    let mut second = first.copy().unwrap();
    let third = second.copy().unwrap();
    assert_eq!(frames(&mut first), ["a", "(trailers)", "(end)"]);
    assert_eq!(frames(&mut second), ["a", "(trailers)", "(end)"]);
    let collected = task::spawn(third.collect()).poll();
    let collected = assert_ready!(collected).unwrap();
    assert_eq!(collected.trailers(), Some(&trailers()));
}

#[tokio::test]
async fn every_kind_of_body_can_be_sent_three_times() {
    async fn thrice<B>(body: B)
    where
        B: Body<Error: Into<BoxError>> + Unpin,
    {
        let first = ReplayBody::new(body, CAP);
        let second = first.copy().unwrap();
        let third = second.copy().unwrap();
        for body in [first, second, third] {
            assert!(body.is_intact());
            assert_eq!(body.collect().await.unwrap().to_bytes(), "abc");
        }
    }
    let frames = || Frames(["a", "b", "c"].into_iter());
    thrice("abc".to_owned()).await;
    thrice(Full::<Bytes>::from("abc")).await;
    thrice(Full::new(std::collections::VecDeque::from(*b"abc"))).await;
    thrice(Full::<Bytes>::from("abc").boxed()).await;
    thrice(frames().boxed_unsync()).await;
    thrice(frames()).await;
    thrice(tonic::body::Body::new(frames())).await;
}

#[test]
fn the_first_byte_waits_for_nothing_and_no_memory_is_copied() {
    let (mut source, mut first) = stream();
    let _second = first.copy().unwrap();
    let data = Bytes::from(vec![7; 100]);
    source.try_send(Frame::data(data.clone())).unwrap();
    let mut read = task::spawn(first.frame());
    let frame = assert_ready!(read.poll()).unwrap().unwrap();
    assert_eq!(frame.data_ref().unwrap().as_ptr(), data.as_ptr());
}

// ---- what is kept ----------------------------------------------------------------

/// Data that counts how much of it is alive.
struct Counted(Arc<AtomicUsize>);

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        b"x"
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Gives three frames of counted data; they are read and dropped at once.
fn read_three<B>(alive: &Arc<AtomicUsize>, source: &mut Source, body: &mut ReplayBody<B>)
where
    ReplayBody<B>: Body<Data = Bytes, Error = BoxError> + Unpin,
{
    for _ in 0..3 {
        alive.fetch_add(1, Ordering::Relaxed);
        let data = Bytes::from_owner(Counted(Arc::clone(alive)));
        source.try_send(Frame::data(data)).unwrap();
    }
    assert_eq!(frames(body), ["x", "x", "x", "(pending)"]);
}

#[test]
fn nothing_is_kept_where_there_is_no_copy() {
    let alive = Arc::default();
    let (mut source, mut body) = stream();
    read_three(&alive, &mut source, &mut body);
    assert_eq!(alive.load(Ordering::Relaxed), 0);
    assert!(body.copy().is_none(), "of a body that was read in part");
    assert!(!body.is_intact());
}

#[test]
fn nothing_more_is_kept_once_the_copies_are_gone() {
    let alive = Arc::default();
    let (mut source, mut body) = stream();
    let copy = body.copy();
    read_three(&alive, &mut source, &mut body);
    assert_eq!(alive.load(Ordering::Relaxed), 3);
    drop(copy);
    read_three(&alive, &mut source, &mut body);
    assert_eq!(alive.load(Ordering::Relaxed), 0);
    assert!(body.copy().is_none());
}

#[test]
fn the_last_attempt_lets_go_of_what_it_has_sent() {
    let alive = Arc::default();
    let (mut source, mut first) = stream();
    let mut last = first.copy().unwrap();
    read_three(&alive, &mut source, &mut first);
    drop(first);
    for left in [2, 1, 0] {
        assert_eq!(next(&mut last).unwrap(), "x");
        assert_eq!(alive.load(Ordering::Relaxed), left);
    }
    read_three(&alive, &mut source, &mut last);
    assert_eq!(alive.load(Ordering::Relaxed), 0);
}

#[test]
fn a_body_of_the_cap_is_kept_and_one_byte_more_is_not() {
    for (more, kept) in [("", true), ("x", false)] {
        let (mut source, mut first) = stream_with_cap(6);
        let mut second = first.copy().unwrap();
        give(&mut source, "abc");
        give(&mut source, "def");
        give(&mut source, more);
        assert_eq!(frames(&mut first), ["abc", "def", more, "(pending)"]);
        assert_eq!(second.is_intact(), kept);
        assert_eq!(second.copy().is_some(), kept);
        if !kept {
            assert!(next(&mut second).unwrap_err().is_outgrown());
        }
        // The attempt under way goes on unharmed, and keeps nothing.
        give(&mut source, "ghi");
        drop(source);
        assert_eq!(frames(&mut first), ["ghi", "(end)"]);
    }
}

#[test]
fn over_the_cap_what_was_kept_is_let_go_at_once() {
    let alive = Arc::default();
    let (mut source, mut first) = stream_with_cap(4);
    let _second = first.copy().unwrap();
    read_three(&alive, &mut source, &mut first);
    assert_eq!(alive.load(Ordering::Relaxed), 3);
    read_three(&alive, &mut source, &mut first);
    assert_eq!(alive.load(Ordering::Relaxed), 0);
}

#[test]
fn large_trailers_count_as_well() {
    let (mut source, mut first) = stream_with_cap(4);
    let second = first.copy().unwrap();
    source.try_send(Frame::trailers(trailers())).unwrap();
    drop(source);
    assert_eq!(frames(&mut first), ["(trailers)", "(end)"]);
    assert!(!second.is_intact());
}

#[test]
fn a_body_that_announces_too_much_has_no_copy_and_is_sent_as_it_is() {
    let mut body = ReplayBody::new(Full::<Bytes>::from("abcd"), 3);
    assert!(body.copy().is_none());
    assert!(body.is_intact());
    assert_eq!(body.size_hint().exact(), Some(4));
    assert_eq!(frames(&mut body), ["abcd", "(end)"]);
    assert!(
        ReplayBody::new(Full::<Bytes>::from("abc"), 3)
            .copy()
            .is_some()
    );
}

#[test]
fn frames_without_end_and_without_data_are_not_kept_without_end() {
    let mut first = ReplayBody::new(Frames(std::iter::repeat("")), CAP);
    let second = first.copy().unwrap();
    for read in 1..=1000 {
        assert_eq!(next(&mut first).unwrap(), "");
        assert_eq!(second.is_intact(), read <= CAP / 64 + 64, "{read}");
    }
}

#[test]
fn without_a_cap_to_speak_of_only_an_empty_body_is_sent_again() {
    let empty = ReplayBody::new(Empty::<Bytes>::new(), 0);
    assert!(empty.copy().unwrap().is_end_stream());
    let (mut source, mut first) = stream_with_cap(0);
    let second = first.copy().unwrap();
    assert!(second.is_intact());
    give(&mut source, "a");
    assert_eq!(next(&mut first).unwrap(), "a");
    assert!(!second.is_intact());
}

// ---- what is announced -----------------------------------------------------------

#[test]
fn an_exact_size_shrinks_as_it_is_sent_in_every_attempt() {
    let mut first = ReplayBody::new(Full::<Bytes>::from("abc").boxed(), CAP);
    let mut second = first.copy().unwrap();
    for body in [&mut first, &mut second] {
        assert_eq!(body.size_hint().exact(), Some(3));
        assert!(!body.is_end_stream());
        assert_eq!(next(body).unwrap(), "abc");
        assert_eq!(body.size_hint().exact(), Some(0));
        assert!(body.is_end_stream());
    }
}

#[test]
fn an_unknown_size_stays_unknown_when_all_of_it_is_kept() {
    let (mut source, mut first) = stream();
    give(&mut source, "abc");
    source.try_send(Frame::trailers(trailers())).unwrap();
    drop(source);
    let mut second = first.copy().unwrap();
    assert_eq!(first.size_hint().exact(), None);
    assert_eq!(frames(&mut first), ["abc", "(trailers)", "(end)"]);
    assert!(first.is_end_stream());
    // An exact size would make HTTP/1 send a length, and no trailers.
    for frame in ["abc", "(trailers)"] {
        assert_eq!(second.size_hint().exact(), None);
        assert!(!second.is_end_stream(), "before {frame}");
        assert_eq!(next(&mut second).unwrap(), frame);
    }
    assert!(second.is_end_stream());
    assert_eq!(next(&mut second).unwrap(), "(end)");
}

/// Says less than it gives.
struct Liar;

impl Body for Liar {
    type Data = Bytes;
    type Error = Infallible;
    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"lie")))))
    }
    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(1)
    }
}

#[test]
fn a_body_that_announced_too_little_overflows_no_number() {
    let mut first = ReplayBody::new(Liar, CAP);
    let second = first.copy().unwrap();
    for _ in 0..1000 {
        assert_eq!(next(&mut first).unwrap(), "lie");
    }
    assert_eq!(first.size_hint().exact(), Some(0));
    assert!(!second.is_intact());
}

// ---- bodies that fail ------------------------------------------------------------

#[test]
fn an_error_comes_at_its_place_with_its_type_and_spoils_the_copies() {
    let (mut source, mut first) = stream();
    let mut second = first.copy().unwrap();
    give(&mut source, "a");
    source.abort(io::Error::other("the disk is gone"));
    assert_eq!(next(&mut first).unwrap(), "a");
    assert!(second.is_intact());
    let error = assert_ready!(task::spawn(first.frame()).poll());
    let error = error.unwrap().unwrap_err();
    assert!(error.is::<io::Error>(), "{error:?}");
    assert_eq!(next(&mut first).unwrap(), "(end)");
    assert!(!second.is_intact());
    assert!(second.copy().is_none());
    assert_eq!(next(&mut second).unwrap(), "a");
    assert!(!next(&mut second).unwrap_err().is_outgrown());
    assert_eq!(next(&mut second).unwrap(), "(end)");
}

/// Panics when it is polled for the second time.
struct Panics(bool);

impl Body for Panics {
    type Data = Bytes;
    type Error = Infallible;
    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        assert!(!std::mem::replace(&mut self.0, true), "scripted panic");
        Poll::Pending
    }
}

#[test]
fn a_body_that_panics_leaves_no_copy_waiting() {
    let mut first = ReplayBody::new(Panics(false), CAP);
    let mut second = first.copy().unwrap();
    let mut waits = task::spawn(second.frame());
    assert_pending!(waits.poll());
    let polled = std::panic::AssertUnwindSafe(|| next(&mut first));
    assert!(std::panic::catch_unwind(polled).is_err());
    assert!(waits.is_woken());
    assert!(assert_ready!(waits.poll()).unwrap().is_err());
    drop(waits);
    assert!(!second.is_intact());
}

// ---- several attempts at once ----------------------------------------------------

#[test]
fn copies_read_at_once_all_get_every_frame_in_order_and_are_woken_for_it() {
    let (mut source, mut first) = stream();
    let mut second = first.copy().unwrap();
    let mut tasks = [&mut first, &mut second].map(|body| task::spawn(body.collect()));
    for data in ["a", "b"] {
        for task in &mut tasks {
            assert_pending!(task.poll());
        }
        give(&mut source, data);
        assert_eq!([0, 1].map(|n| tasks[n].is_woken()), [true; 2], "{data}");
    }
    drop(source);
    // Reading on, the one wakes the other, whichever goes first.
    for task in tasks.iter_mut().rev() {
        let collected = assert_ready!(task.poll());
        assert_eq!(collected.unwrap().to_bytes(), "ab");
    }
}

#[test]
fn a_copy_that_reads_wakes_the_others_and_not_itself() {
    let (mut source, mut first) = stream();
    let mut second = first.copy().unwrap();
    let mut tasks = [&mut first, &mut second].map(|body| task::spawn(body.frame()));
    for task in &mut tasks {
        assert_pending!(task.poll());
    }
    give(&mut source, "a");
    let [first, second] = &mut tasks;
    assert_ready!(first.poll());
    assert!(!first.is_woken());
    assert!(second.is_woken());
}

/// A task that is never run.
struct Idle;

impl Wake for Idle {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_copy_that_is_dropped_or_has_read_holds_no_task() {
    let (mut source, mut first) = stream();
    let mut second = first.copy().unwrap();
    let task = Arc::new(Idle);
    let waker = Waker::from(Arc::clone(&task));
    let mut cx = Context::from_waker(&waker);
    for body in [&mut first, &mut second] {
        assert_pending!(Pin::new(body).poll_frame(&mut cx));
    }
    assert_eq!(Arc::strong_count(&task), 4);
    drop(second);
    assert_eq!(Arc::strong_count(&task), 3);
    give(&mut source, "a");
    assert_ready!(Pin::new(&mut first).poll_frame(&mut cx));
    assert_eq!(Arc::strong_count(&task), 2);
}

/// A body during whose first poll something happens, and what it then gives.
struct Meanwhile {
    event: Option<Box<dyn FnOnce() + Send>>,
    gives: Gives,
}

#[derive(Clone, Copy, Debug)]
enum Gives {
    Nothing,
    Frame,
    End,
    Error,
    Panic,
}

impl Body for Meanwhile {
    type Data = Bytes;
    type Error = io::Error;
    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let event = self.event.take().unwrap();
        event();
        match self.gives {
            Gives::Nothing => Poll::Pending,
            Gives::Frame => Poll::Ready(Some(Ok(Frame::data("a".into())))),
            Gives::End => Poll::Ready(None),
            Gives::Error => Poll::Ready(Some(Err(io::Error::other("gone")))),
            Gives::Panic => panic!("scripted panic"),
        }
    }
}

#[test]
fn a_copy_that_finds_the_body_being_polled_is_woken_when_it_is_back() {
    for gives in [
        Gives::Nothing,
        Gives::Frame,
        Gives::End,
        Gives::Error,
        Gives::Panic,
    ] {
        let other = Arc::new(Mutex::new(None::<ReplayBody<Meanwhile>>));
        let left = Arc::new(Mutex::new(None));
        let (mut waits, taken, leave) = (task::spawn(()), Arc::clone(&other), Arc::clone(&left));
        let event = move || {
            let mut second = taken.lock().unwrap().take().unwrap();
            assert_pending!(waits.enter(|cx, _| Pin::new(&mut second).poll_frame(cx)));
            *leave.lock().unwrap() = Some((waits, second));
        };
        let event = Some(Box::new(event) as Box<dyn FnOnce() + Send>);
        let mut first = ReplayBody::new(Meanwhile { event, gives }, CAP);
        *other.lock().unwrap() = first.copy();
        let polled = std::panic::AssertUnwindSafe(|| next(&mut first));
        let _ = std::panic::catch_unwind(polled);
        let (waits, _second) = left.lock().unwrap().take().unwrap();
        assert!(waits.is_woken(), "{gives:?}");
    }
}

#[test]
fn the_waiting_of_a_dropped_copy_takes_no_wake_from_the_other() {
    let (mut source, mut first) = stream();
    let mut second = first.copy().unwrap();
    let mut reads = task::spawn(first.frame());
    assert_pending!(reads.poll());
    // The body's own waker is the second's now.
    assert_eq!(next(&mut second).unwrap(), "(pending)");
    drop(second);
    give(&mut source, "a");
    assert!(reads.is_woken());
    assert_ready!(reads.poll());
}

#[test]
fn past_the_cap_the_attempt_that_began_last_goes_on_whoever_reads_too_much() {
    for newer_reads in [false, true] {
        let (mut source, mut older) = stream_with_cap(3);
        let mut newer = older.copy().unwrap();
        let spare = newer.copy().unwrap();
        give(&mut source, "abc");
        assert_eq!(next(&mut older).unwrap(), "abc");
        assert_eq!(next(&mut newer).unwrap(), "abc");
        give(&mut source, "def");
        if newer_reads {
            assert_eq!(next(&mut newer).unwrap(), "def");
            assert!(next(&mut older).unwrap_err().is_outgrown());
        } else {
            assert!(next(&mut older).unwrap_err().is_outgrown());
            assert_eq!(next(&mut newer).unwrap(), "def");
        }
        assert_eq!(next(&mut older).unwrap(), "(end)");
        assert!(!spare.is_intact());
        give(&mut source, "ghi");
        drop(source);
        assert_eq!(frames(&mut newer), ["ghi", "(end)"]);
    }
}

#[test]
fn past_the_cap_no_other_attempt_takes_what_is_left_for_the_one_that_goes_on() {
    let (mut source, mut first) = stream_with_cap(3);
    let mut second = first.copy().unwrap();
    let mut third = first.copy().unwrap();
    give(&mut source, "abc");
    for body in [&mut first, &mut second, &mut third] {
        assert_eq!(next(body).unwrap(), "abc");
    }
    give(&mut source, "def");
    give(&mut source, "ghi");
    drop(source);
    assert!(next(&mut first).unwrap_err().is_outgrown());
    assert!(!second.is_end_stream());
    assert!(next(&mut second).unwrap_err().is_outgrown());
    assert_eq!(frames(&mut third), ["def", "ghi", "(end)"]);
}

#[test]
fn past_the_cap_an_attempt_that_is_gone_stands_in_nobodys_way() {
    let (mut source, mut older) = stream_with_cap(3);
    let mut newer = older.copy().unwrap();
    let _spare = older.copy().unwrap();
    assert_eq!(next(&mut older).unwrap(), "(pending)");
    assert_eq!(next(&mut newer).unwrap(), "(pending)");
    drop(newer);
    give(&mut source, "abcdef");
    drop(source);
    assert_eq!(frames(&mut older), ["abcdef", "(end)"]);
}

#[test]
fn an_attempt_that_is_behind_when_the_cap_is_passed_still_gets_all() {
    let (mut source, mut older) = stream_with_cap(3);
    let mut newer = older.copy().unwrap();
    assert_eq!(next(&mut older).unwrap(), "(pending)");
    assert_eq!(next(&mut newer).unwrap(), "(pending)");
    give(&mut source, "abc");
    give(&mut source, "def");
    assert_eq!(next(&mut older).unwrap(), "abc");
    assert!(next(&mut older).unwrap_err().is_outgrown());
    drop(source);
    assert_eq!(frames(&mut newer), ["abc", "def", "(end)"]);
}

#[test]
fn when_the_one_that_went_on_alone_is_dropped_the_body_is_too() {
    let (mut source, mut first) = stream_with_cap(0);
    let mut second = first.copy().unwrap();
    give(&mut source, "a");
    assert_eq!(next(&mut first).unwrap(), "a");
    drop(first);
    assert!(source.try_send(Frame::data(Bytes::new())).is_err());
    assert!(next(&mut second).unwrap_err().is_outgrown());
}

/// A body that ends when its frames do. With a sender on another thread
/// `http_body_util`'s channel may end a moment before: it looks for frames first,
/// and then at whether there is a sender.
struct Received(mpsc::Receiver<Bytes>);

impl Body for Received {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0
            .poll_recv(cx)
            .map(|data| data.map(|data| Ok(Frame::data(data))))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn copies_read_on_several_threads_get_the_same() {
    for _ in 0..200 {
        let (source, frames) = mpsc::channel(2);
        let first = ReplayBody::new(Received(frames).boxed_unsync(), CAP);
        let mut copies = vec![first];
        for _ in 0..3 {
            let copy = copies[0].copy().unwrap();
            copies.push(copy);
        }
        let reads = copies
            .into_iter()
            .map(|copy| tokio::spawn(copy.collect()))
            .collect::<Vec<_>>();
        for number in 0..50_u8 {
            source.send(Bytes::from(vec![number])).await.unwrap();
        }
        drop(source);
        for read in reads {
            let bytes = read.await.unwrap().unwrap().to_bytes();
            assert_eq!(bytes, (0..50).collect::<Vec<_>>());
        }
    }
}

// ---- types -----------------------------------------------------------------------

#[test]
fn it_can_be_sent_and_shared_whatever_the_body_is() {
    const fn is<T: Send + Sync + Unpin + 'static>() {}
    is::<ReplayBody<UnsyncBoxBody<Bytes, BoxError>>>();
    is::<ReplayBody<tonic::body::Body>>();
    is::<ReplayBody<Stream>>();
    is::<ReplayError>();
    is::<ReplayLayer>();
    is::<ReplayService<()>>();
}

#[test]
fn of_boxed_bodies_only_the_empty_have_a_copy_of_their_own() {
    assert!(Empty::<Bytes>::new().boxed().copy().is_some());
    assert!(Empty::<Bytes>::new().boxed_unsync().copy().is_some());
    assert!(Full::<Bytes>::from("a").boxed().copy().is_none());
    assert!(Full::<Bytes>::from("a").boxed_unsync().copy().is_none());
}

#[test]
fn one_of_two_bodies_is_copied_and_intact_as_it_is() {
    type Either = http_body_util::Either<Full<Bytes>, ReplayBody<Stream>>;
    let (mut source, mut first) = stream_with_cap(0);
    let copy = Some(Either::Right(first.copy().unwrap()));
    assert!(copy.is_intact());
    assert!(copy.copy().unwrap().is_some());
    give(&mut source, "a");
    assert_eq!(next(&mut first).unwrap(), "a");
    assert!(!copy.is_intact());
    assert!(copy.copy().is_none());

    let left = Some(Either::Left(Full::from("a")));
    assert!(left.is_intact());
    let copy = left.copy().flatten().unwrap();
    assert!(matches!(copy, Either::Left(full) if full.size_hint().exact() == Some(1)));
    let none = None::<ReplayBody<Stream>>;
    assert!(none.is_intact() && matches!(none.copy(), Some(None)));
}

#[cfg(feature = "grpc")]
#[test]
fn of_tonics_bodies_only_the_empty_have_a_copy_of_their_own() {
    assert!(tonic::body::Body::empty().copy().unwrap().is_end_stream());
    let full = tonic::body::Body::new(Full::<Bytes>::from("a"));
    assert!(full.copy().is_none());
}

#[cfg(feature = "axum")]
#[test]
fn of_axums_bodies_only_the_empty_have_a_copy_of_their_own() {
    assert!(axum::body::Body::empty().copy().unwrap().is_end_stream());
    assert!(axum::body::Body::from("a").copy().is_none());
}
