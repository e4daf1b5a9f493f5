//! Measures all contenders in turn, again and again.

use std::time::Duration;

use tokio::runtime::Runtime;

use crate::peers::{Bare, Peer, Steadfast};
use crate::subject::{Measure, Measured, SUBJECTS};
use crate::workload::Workload;

/// How long the calls of a contender on a workload take in one round: long
/// against the clock's resolution, short against a scheduler's time slice, so
/// that most turns on a busy machine are not interrupted.
const TURN: Duration = Duration::from_micros(500);

/// A contender on a workload, over all rounds.
pub struct Row {
    pub workload: Workload,
    pub contender: &'static str,
    /// Medians over the rounds: of a call, and of its ratio to what others took
    /// in the same round.
    /// Rounds of several threads that another program disturbed are left out,
    /// and with them all that is `None` here.
    pub nanoseconds: Option<f64>,
    pub to_bare: Option<f64>,
    pub to_steadfast: Option<f64>,
    /// How many times the calls per second that one thread makes.
    pub gain: Option<f64>,
    /// Means, of the calling thread; not counted for several.
    pub allocations: Option<f64>,
    pub bytes: Option<f64>,
    pub future_bytes: usize,
    /// How many rounds the medians are of.
    pub used: usize,
}

/// Runs so many rounds, telling `progress` where it is.
pub fn run(rounds: u32, runtime: &Runtime, progress: impl Fn(&str)) -> Result<Vec<Row>, String> {
    for subject in &SUBJECTS {
        progress(&format!("checking {}", subject.name));
        subject.check(runtime)?;
    }
    progress("warming up");
    let mut groups = Vec::new();
    for workload in Workload::ALL {
        groups.push(group(workload, runtime)?);
    }
    for round in 0..rounds {
        if round.is_multiple_of(rounds.div_ceil(10)) {
            progress(&format!("round {} of {rounds}", round + 1));
        }
        for group in &mut groups {
            // Nobody is always first, or always after the same neighbour's mess.
            let first = round as usize % group.len();
            for turn in 0..group.len() {
                let turn = (first + turn) % group.len();
                group[turn].take_turn()?;
            }
        }
    }
    Ok(groups.iter_mut().flat_map(|group| rows(group)).collect())
}

struct Entry<'r> {
    workload: Workload,
    contender: &'static str,
    measured: Box<dyn Measured + 'r>,
    calls: u64,
    measures: Vec<Measure>,
}

fn group(workload: Workload, runtime: &Runtime) -> Result<Vec<Entry<'_>>, String> {
    let mut group = Vec::new();
    for subject in &SUBJECTS {
        if let Some(measured) = subject.on(workload, runtime) {
            let mut entry = Entry {
                workload,
                contender: subject.name,
                measured,
                calls: 1,
                measures: Vec::new(),
            };
            entry.set_up()?;
            group.push(entry);
        }
    }
    Ok(group)
}

impl Entry<'_> {
    fn set_up(&mut self) -> Result<(), String> {
        let prepared = self.measured.prepare();
        self.named(prepared)?;
        // Doubled until a batch is long enough to tell how many fill a turn.
        loop {
            let measure = self.measured.measure(self.calls);
            let measure = self.named(measure)?;
            let took = measure.by_one_thread().elapsed;
            if took >= TURN / 8 && !measure.by_one_thread().disturbed {
                let fit = TURN.as_secs_f64() / took.as_secs_f64();
                self.calls = ((self.calls as f64 * fit) as u64).max(1);
                return Ok(());
            }
            if took < TURN {
                self.calls *= 2;
            }
        }
    }

    fn take_turn(&mut self) -> Result<(), String> {
        let measure = self.measured.measure(self.calls);
        let measure = self.named(measure)?;
        self.measures.push(measure);
        Ok(())
    }

    fn named<T>(&self, result: Result<T, String>) -> Result<T, String> {
        let (contender, workload) = (self.contender, self.workload.name());
        result.map_err(|problem| format!("{contender} on {workload}: {problem}"))
    }

    /// Nanoseconds per call, by round.
    fn times(&self) -> Vec<Option<f64>> {
        let time = |measure: &Measure| {
            (!measure.is_disturbed()).then(|| measure.batch.nanoseconds_per_call())
        };
        self.measures.iter().map(time).collect()
    }

    fn gain(measure: &Measure) -> Option<f64> {
        let one = measure.one_thread.as_ref()?;
        (!measure.is_disturbed())
            .then(|| one.nanoseconds_per_call() / measure.batch.nanoseconds_per_call())
    }
}

fn rows(group: &mut [Entry<'_>]) -> Vec<Row> {
    let times_of = |name: &str| {
        let entry = group.iter().find(|entry| entry.contender == name);
        entry.map(Entry::times).unwrap_or_default()
    };
    let bare = times_of(Bare::NAME);
    let steadfast = times_of(Steadfast::NAME);
    let mut rows = Vec::new();
    for entry in group {
        let times = entry.times();
        let to = |others: &[Option<f64>]| {
            let pairs = times.iter().zip(others);
            median(pairs.filter_map(|(own, other)| own.zip(*other).map(|(own, other)| own / other)))
        };
        let per_call = |count: fn(&Measure) -> u64| {
            let calls: u64 = entry.measures.iter().map(|m| m.batch.calls).sum();
            let counted: u64 = entry.measures.iter().map(count).sum();
            (!entry.workload.is_threaded()).then(|| counted as f64 / calls as f64)
        };
        rows.push(Row {
            workload: entry.workload,
            contender: entry.contender,
            nanoseconds: median(times.iter().copied().flatten()),
            to_bare: to(&bare),
            to_steadfast: to(&steadfast),
            gain: median(entry.measures.iter().filter_map(Entry::gain)),
            allocations: per_call(|measure| measure.batch.allocations),
            bytes: per_call(|measure| measure.batch.bytes),
            future_bytes: entry.measured.future_bytes(),
            used: times.iter().flatten().count(),
        });
    }
    rows
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    Some(if values.len().is_multiple_of(2) {
        (values[middle - 1] + upper) / 2.0
    } else {
        upper
    })
}
