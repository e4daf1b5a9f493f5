//! What the stages of a call tell each other within one poll.

use crate::classify::verdict::Verdict;
use crate::moment::Moment;

/// One poll of a call.
#[derive(Debug)]
pub struct Turn {
    /// Never, where it is yet to be read.
    now: Moment,
    listens: bool,
    success: Option<Verdict>,
}

impl Turn {
    /// A poll in which somebody listens to what comes of the call, or nobody.
    #[inline]
    pub(crate) const fn new(listens: bool) -> Self {
        Self {
            now: Moment::NEVER,
            listens,
            success: None,
        }
    }

    /// The present, read at most once unless time has passed, and only if
    /// somebody asks.
    #[inline]
    pub(crate) fn now(&mut self) -> Moment {
        if self.now == Moment::NEVER {
            self.now = Moment::now();
        }
        self.now
    }

    /// Has the clock read again.
    #[inline]
    pub(crate) const fn time_passes(&mut self) {
        self.now = Moment::NEVER;
    }

    /// Notes the verdict on a success for those who listen, who are told how
    /// long it took as well. For the others a success is a success, and its
    /// verdict needs to be carried nowhere.
    #[inline]
    pub(crate) const fn succeeded(&mut self, verdict: Verdict) {
        if self.listens {
            self.time_passes();
            self.success = Some(verdict);
        }
    }

    /// The verdict on the success, if anybody wants to hear it.
    #[inline]
    pub(crate) const fn success(&self) -> Option<&Verdict> {
        self.success.as_ref()
    }
}
