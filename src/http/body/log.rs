//! What was read of a body that several copies share, and who may read on.
//!
//! An engine without wakers or locks. A [`Reader`] is one copy's place. The
//! first that wants more than the log holds takes the body out to poll it,
//! and brings it back with what came; so no foreign code runs under a lock.

use std::collections::VecDeque;

use ::http::HeaderMap;
use bytes::Bytes;
use http_body::Frame;

/// Frames are limited in number too, so that many tiny ones cannot hold much
/// more memory than the cap says: one for each so many bytes of it ...
const BYTES_PER_FRAME: usize = 64;
/// ... and so many besides.
const FRAMES_BESIDES: usize = 64;

/// One copy's place in the body.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) id: u64,
    /// How many frames it has got.
    position: u64,
    /// How many bytes of data were in them.
    bytes: u64,
    begun: bool,
    done: bool,
}

impl Reader {
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    fn got(&mut self, frame: &Frame<Bytes>) {
        self.position += 1;
        let data = frame.data_ref().map_or(0, Bytes::len);
        self.bytes = self.bytes.saturating_add(data as u64);
    }
}

/// Why a copy cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// More was read by another copy than is kept.
    Outgrown,
    /// The body failed while another copy read it.
    Failed,
}

/// What a reader gets.
#[derive(Debug)]
pub(super) enum Next<B> {
    Frame(Frame<Bytes>),
    End,
    Broken(Broken),
    /// All that is kept was read. The body itself, to be polled and brought
    /// back by one of `pending`, `took`, `ended` and `failed`.
    Body(B),
    /// As before, but another reader has it out.
    Busy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Open,
    Ended,
    Failed,
}

#[derive(Clone, Debug)]
enum Kept {
    Data(Bytes),
    Trailers(HeaderMap),
}

impl Kept {
    /// `None` for a kind of frame that this version does not know.
    fn of(frame: &Frame<Bytes>) -> Option<Self> {
        if let Some(data) = frame.data_ref() {
            return Some(Self::Data(data.clone()));
        }
        frame.trailers_ref().cloned().map(Self::Trailers)
    }

    fn len(&self) -> usize {
        match self {
            Self::Data(data) => data.len(),
            Self::Trailers(trailers) => trailers
                .iter()
                .map(|(name, value)| name.as_str().len() + value.len())
                .fold(0, usize::saturating_add),
        }
    }

    fn into_frame(self) -> Frame<Bytes> {
        match self {
            Self::Data(data) => Frame::data(data),
            Self::Trailers(trailers) => Frame::trailers(trailers),
        }
    }
}

#[derive(Debug)]
pub(super) struct Log<B> {
    cap: usize,
    /// `None` while a reader has it out, and when it is over.
    body: Option<B>,
    rest: Rest,
    /// What is kept, the first of which has this number in the body.
    frames: VecDeque<Kept>,
    first: u64,
    /// How many bytes that is, until one reader goes on alone.
    kept: usize,
    /// How many copies are alive, and which of them have begun to read, in
    /// that order.
    readers: usize,
    begun: Vec<u64>,
    next_id: u64,
    /// The one reader that may go on after the cap was passed.
    only: Option<u64>,
    /// Whether somebody found the body taken out.
    missed: bool,
}

impl<B> Log<B> {
    /// With its first reader.
    pub(super) fn new(body: B, cap: usize) -> (Self, Reader) {
        let mut log = Self {
            cap,
            body: Some(body),
            rest: Rest::Open,
            frames: VecDeque::new(),
            first: 0,
            kept: 0,
            readers: 0,
            begun: Vec::new(),
            next_id: 0,
            only: None,
            missed: false,
        };
        let reader = log.reader();
        (log, reader)
    }

    fn reader(&mut self) -> Reader {
        let id = self.next_id;
        self.next_id += 1;
        self.readers += 1;
        Reader {
            id,
            position: 0,
            bytes: 0,
            begun: false,
            done: false,
        }
    }

    /// Whether a reader can begin at the start and go on to the end.
    const fn is_whole(&self) -> bool {
        self.first == 0 && self.only.is_none() && !matches!(self.rest, Rest::Failed)
    }

    /// A reader that begins at the start.
    pub(super) fn copy(&mut self) -> Option<Reader> {
        self.is_whole().then(|| self.reader())
    }

    pub(super) const fn is_intact(&self, reader: &Reader) -> bool {
        !reader.begun && self.is_whole()
    }

    /// Whether `reader` stands at the end of the body; `over` where it stands
    /// at the end of what was read so far.
    pub(super) fn is_end(&self, reader: &Reader, over: impl FnOnce(&B) -> bool) -> bool {
        let more = self.only.is_some_and(|only| only != reader.id) || reader.position < self.end();
        match self.rest {
            _ if reader.done => true,
            _ if more => false,
            Rest::Ended => true,
            Rest::Failed => false,
            Rest::Open => self.body.as_ref().is_some_and(over),
        }
    }

    fn end(&self) -> u64 {
        self.first + self.frames.len() as u64
    }

    /// Whether nobody else will read what `reader` has read.
    fn is_alone(&self, reader: &Reader) -> bool {
        self.readers == 1 || self.only == Some(reader.id)
    }

    pub(super) fn next(&mut self, reader: &mut Reader) -> Next<B> {
        if reader.done {
            return Next::End;
        }
        if !reader.begun {
            reader.begun = true;
            self.begun.push(reader.id);
        }
        let cut_off = self.only.is_some_and(|only| only != reader.id);
        let Some(at) = reader.position.checked_sub(self.first).filter(|_| !cut_off) else {
            reader.done = true;
            return Next::Broken(Broken::Outgrown);
        };
        if let Some(frame) = self.kept_at(at, self.is_alone(reader)) {
            reader.got(&frame);
            return Next::Frame(frame);
        }
        match self.rest {
            Rest::Ended => {
                reader.done = true;
                Next::End
            }
            Rest::Failed => {
                reader.done = true;
                Next::Broken(Broken::Failed)
            }
            Rest::Open => match self.body.take() {
                Some(body) => Next::Body(body),
                None => {
                    self.missed = true;
                    Next::Busy
                }
            },
        }
    }

    /// The frame at that place, which is not kept on for the last to read it.
    fn kept_at(&mut self, at: u64, last: bool) -> Option<Frame<Bytes>> {
        let at = usize::try_from(at).ok()?;
        let frame = self.frames.get(at).cloned()?;
        if last {
            self.first += self.frames.drain(..=at).len() as u64;
        }
        Some(frame.into_frame())
    }

    /// The body has nothing yet. Says whether to tell others that it is back.
    pub(super) fn pending(&mut self, body: B) -> bool {
        self.body = Some(body);
        std::mem::take(&mut self.missed)
    }

    /// A frame came. It is `reader`'s, unless it was the one too many and a
    /// later attempt has begun, which then goes on alone.
    pub(super) fn took(
        &mut self,
        reader: &mut Reader,
        frame: Frame<Bytes>,
        body: B,
    ) -> Result<Frame<Bytes>, Broken> {
        self.body = Some(body);
        self.missed = false;
        let kept = Kept::of(&frame);
        if !self.is_alone(reader) {
            match kept {
                Some(kept) if self.fits(&kept) => {
                    self.keep(kept);
                    reader.got(&frame);
                    return Ok(frame);
                }
                Some(kept) if self.begun.last() != Some(&reader.id) => {
                    self.keep(kept);
                    self.only = self.begun.last().copied();
                    reader.done = true;
                    return Err(Broken::Outgrown);
                }
                _ => self.only = Some(reader.id),
            }
        }
        self.first = self.end() + 1;
        self.frames = VecDeque::new();
        reader.got(&frame);
        Ok(frame)
    }

    fn fits(&self, kept: &Kept) -> bool {
        let most = self.cap / BYTES_PER_FRAME + FRAMES_BESIDES;
        let bytes = self.kept.checked_add(kept.len());
        bytes.is_some_and(|bytes| bytes <= self.cap) && self.frames.len() < most
    }

    fn keep(&mut self, kept: Kept) {
        self.kept = self.kept.saturating_add(kept.len());
        self.frames.push_back(kept);
    }

    /// The body has ended; the caller drops it.
    pub(super) fn ended(&mut self, reader: &mut Reader) {
        self.rest = Rest::Ended;
        reader.done = true;
    }

    /// The body has failed, or panicked; the caller drops it.
    pub(super) fn failed(&mut self, reader: &mut Reader) {
        self.rest = Rest::Failed;
        reader.done = true;
    }

    /// A copy is dropped. Gives back the body if nobody can read it any more.
    pub(super) fn leave(&mut self, reader: &Reader) -> Option<B> {
        self.readers -= 1;
        self.begun.retain(|id| *id != reader.id);
        if self.only == Some(reader.id) {
            self.rest = Rest::Failed;
            return self.body.take();
        }
        None
    }
}
