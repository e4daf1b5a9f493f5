//! A sign of life on stderr for whatever takes longer than a second.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Says every second that a scenario is still running, until it is dropped.
pub(crate) struct Progress {
    done: Option<Sender<()>>,
    watcher: Option<JoinHandle<()>>,
}

impl Progress {
    pub(crate) fn of(name: &'static str) -> Self {
        let (done, ended) = mpsc::channel();
        let watcher = thread::spawn(move || {
            let mut seconds = 0;
            while ended.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                seconds += 1;
                eprintln!("{name}: running, {seconds} s");
            }
        });
        Self {
            done: Some(done),
            watcher: Some(watcher),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        // Closing the channel wakes the watcher, so that nothing is printed after this.
        drop(self.done.take());
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
    }
}
