//! Calls of two threads against those of one.

use tokio::runtime::Runtime;

use crate::calls::{self, Batch};
use crate::contender::Contender;
use crate::subject::{Measure, Measured};

const WARM_UP: u64 = 256;

/// On a busy machine few of the turns have two cores for themselves.
const MOST_TRIES: u32 = 3;

pub struct Threads<'r, C> {
    runtime: &'r Runtime,
    contender: C,
}

impl<'r, C: Contender> Threads<'r, C> {
    pub fn new(runtime: &'r Runtime, contender: C) -> Self {
        Self { runtime, contender }
    }
}

impl<C: Contender> Threads<'_, C> {
    /// A batch that nobody disturbed, if one can be had.
    fn batch(&self, threads: usize, calls: u64) -> Result<Batch, String> {
        let mut tries = 0;
        loop {
            let batch = calls::batch_on_threads(self.runtime, threads, &self.contender, calls);
            if batch.answered != batch.calls {
                let (answered, of) = (batch.answered, batch.calls);
                return Err(format!("{answered} of {of} calls were answered"));
            }
            tries += 1;
            if !batch.disturbed || tries == MOST_TRIES {
                return Ok(batch);
            }
        }
    }
}

impl<C: Contender> Measured for Threads<'_, C> {
    fn prepare(&mut self) -> Result<(), String> {
        self.measure(WARM_UP).map(drop)
    }

    fn measure(&mut self, calls: u64) -> Result<Measure, String> {
        let one = self.batch(1, calls)?;
        let two = self.batch(2, calls)?;
        Ok(Measure {
            batch: two,
            one_thread: Some(one),
        })
    }

    fn future_bytes(&mut self) -> usize {
        let _entered = self.runtime.enter();
        calls::future_bytes(&mut self.contender)
    }
}
