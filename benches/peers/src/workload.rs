//! What contenders are asked to do.

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Workload {
    /// The service answers at the first poll.
    Ready,
    /// It answers at the second.
    Pending,
    /// The breaker is open.
    Refused,
    /// The first attempt fails, the second is made without a wait and answered.
    OneRetry,
    /// The breaker alone around an answer.
    BreakerSuccess,
    /// The breaker alone around a failure, kept from opening.
    BreakerFailure,
    /// Two threads, each with a clone of one stack.
    ThreadsReady,
    /// Likewise, with a timer per call.
    ThreadsPending,
}

impl Workload {
    pub const ALL: [Self; 8] = [
        Self::Ready,
        Self::Pending,
        Self::Refused,
        Self::OneRetry,
        Self::BreakerSuccess,
        Self::BreakerFailure,
        Self::ThreadsReady,
        Self::ThreadsPending,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Pending => "pending",
            Self::Refused => "refused",
            Self::OneRetry => "one-retry",
            Self::BreakerSuccess => "breaker-success",
            Self::BreakerFailure => "breaker-failure",
            Self::ThreadsReady => "threads-ready",
            Self::ThreadsPending => "threads-pending",
        }
    }

    /// An instruction counter sees one thread.
    pub fn is_threaded(self) -> bool {
        matches!(self, Self::ThreadsReady | Self::ThreadsPending)
    }
}
