//! The list of contenders, with their types hidden.

use tokio::runtime::Runtime;

use crate::calls::Batch;
use crate::check;
use crate::contender::Contender;
use crate::inner::{Inner, Script};
use crate::peers::{
    Backon, Bare, Failsafe, Peer, Recloser, Seatbelt, SeatbeltTower, Steadfast,
    SteadfastConsecutive, SteadfastCount, Tower, TowerResilience, TowerTimeout,
};
use crate::settings::{FAILURES_PER_SUCCESS, Rule};
use crate::single::{Expected, Single};
use crate::threads::Threads;
use crate::workload::Workload;

pub struct Subject {
    pub name: &'static str,
    /// Listed only where it is measured.
    pub is_part: bool,
    build: for<'r> fn(Workload, &'r Runtime) -> Option<Box<dyn Measured + 'r>>,
    check: fn(&Runtime) -> Result<(), String>,
}

/// A contender on a workload.
pub trait Measured {
    /// Warms up, and sees that the contender does what it is there for.
    fn prepare(&mut self) -> Result<(), String>;

    /// Makes so many calls, and sees what became of them.
    fn measure(&mut self, calls: u64) -> Result<Measure, String>;

    fn future_bytes(&mut self) -> usize;
}

pub struct Measure {
    pub batch: Batch,
    /// The same calls on one thread, where `batch` was made by two.
    pub one_thread: Option<Batch>,
}

impl Measure {
    /// The calls of one thread.
    pub fn by_one_thread(&self) -> &Batch {
        self.one_thread.as_ref().unwrap_or(&self.batch)
    }

    pub fn is_disturbed(&self) -> bool {
        self.batch.disturbed || self.one_thread.is_some_and(|batch| batch.disturbed)
    }
}

pub const SUBJECTS: [Subject; 12] = [
    Subject::of::<Bare>(),
    Subject::of::<Steadfast>(),
    Subject::of::<SteadfastConsecutive>(),
    Subject::of::<SteadfastCount>(),
    Subject::of::<TowerTimeout>(),
    Subject::of::<Tower>(),
    Subject::of::<TowerResilience>(),
    Subject::of::<Failsafe>(),
    Subject::of::<Recloser>(),
    Subject::of::<Backon>(),
    Subject::of::<Seatbelt>(),
    Subject::of::<SeatbeltTower>(),
];

impl Subject {
    const fn of<P: Peer>() -> Self {
        Self {
            name: P::NAME,
            is_part: P::IS_PART,
            build: build::<P>,
            check: check::holds::<P>,
        }
    }

    /// `None` if the contender cannot do this.
    pub fn on<'r>(
        &self,
        workload: Workload,
        runtime: &'r Runtime,
    ) -> Option<Box<dyn Measured + 'r>> {
        let _entered = runtime.enter();
        (self.build)(workload, runtime)
    }

    /// That the stack retries, and that what has a breaker trips.
    pub fn check(&self, runtime: &Runtime) -> Result<(), String> {
        let _entered = runtime.enter();
        (self.check)(runtime).map_err(|problem| format!("{}: {problem}", self.name))
    }
}

fn build<P: Peer>(workload: Workload, runtime: &Runtime) -> Option<Box<dyn Measured + '_>> {
    match workload {
        Workload::Ready => single(
            runtime,
            P::stack(Inner::READY)?,
            Expected::Answers { pending: false },
        ),
        Workload::Pending => single(
            runtime,
            P::stack(Inner::PENDING_ONCE)?,
            Expected::Answers { pending: true },
        ),
        Workload::Refused => {
            let script = Script::new(|_| true);
            let contender = P::refusing(Inner::scripted(script))?;
            single(runtime, contender, Expected::Refusals { script })
        }
        Workload::OneRetry => {
            let script = Script::new(|call| call % 2 == 0);
            let contender = P::at_once(Inner::scripted(script))?;
            single(runtime, contender, Expected::Retries { script })
        }
        Workload::BreakerSuccess => single(
            runtime,
            P::breaker(Inner::READY, Rule::Half)?,
            Expected::Answers { pending: false },
        ),
        Workload::BreakerFailure => {
            let script = Script::new(|call| call % FAILURES_PER_SUCCESS != 0);
            let contender = P::breaker(Inner::scripted(script), Rule::OutOfReach)?;
            single(runtime, contender, Expected::Failures { script })
        }
        Workload::ThreadsReady => threads(runtime, P::stack(Inner::READY)?),
        Workload::ThreadsPending => threads(runtime, P::stack(Inner::PENDING_ONCE)?),
    }
}

fn single<'r, C: Contender>(
    runtime: &'r Runtime,
    contender: C,
    expected: Expected,
) -> Option<Box<dyn Measured + 'r>> {
    let measured = Single::new(runtime, contender, expected);
    Some(Box::new(measured))
}

fn threads<'r, C: Contender>(runtime: &'r Runtime, contender: C) -> Option<Box<dyn Measured + 'r>> {
    Some(Box::new(Threads::new(runtime, contender)))
}
