//! What was measured, as a table or as JSON.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use crate::keys::PerKey;
use crate::rounds::Row;
use crate::subject::SUBJECTS;
use crate::workload::Workload;

pub struct Report {
    pub rounds: u32,
    pub rows: Vec<Row>,
    pub keys: u64,
    pub per_key: Vec<PerKey>,
}

impl Report {
    pub fn table(&self) -> String {
        let mut table = format!(
            "{:<16} {:<22} {:>9} {:>8} {:>12} {:>7} {:>7} {:>7} {:>12}\n",
            "workload",
            "contender",
            "ns/call",
            "to bare",
            "to steadfast",
            "allocs",
            "bytes",
            "future",
            "to 1 thread",
        );
        for workload in Workload::ALL {
            for subject in &SUBJECTS {
                let row = self.row(workload, subject.name);
                if row.is_some() || !subject.is_part {
                    line(&mut table, workload, subject.name, row);
                }
            }
            table.push('\n');
        }
        let _ = writeln!(table, "bytes per key, with {} keys", self.keys);
        for PerKey { contender, bytes } in &self.per_key {
            let _ = writeln!(table, "  {contender:<45} {bytes:>6}");
        }
        table
    }

    /// What the machine was not quiet enough for.
    pub fn doubt(&self) -> Option<String> {
        let threaded = self.rows.iter().filter(|row| row.workload.is_threaded());
        let worst = threaded.min_by_key(|row| row.used)?;
        let (used, rounds, contender) = (worst.used, self.rounds, worst.contender);
        (used < rounds.div_ceil(4) as usize).then(|| {
            format!(
                "other programs kept this machine busy: {contender} on {} had two cores for \
                 itself in {used} of {rounds} rounds only",
                worst.workload.name()
            )
        })
    }

    pub fn json(&self) -> Value {
        let mut workloads = Map::new();
        for workload in Workload::ALL {
            let mut contenders = Map::new();
            for subject in &SUBJECTS {
                let row = self.row(workload, subject.name);
                if row.is_some() || !subject.is_part {
                    let row = row.map(|row| {
                        json!({
                            "median_ns": row.nanoseconds,
                            "to_bare": row.to_bare,
                            "to_steadfast": row.to_steadfast,
                            "allocations": row.allocations,
                            "bytes": row.bytes,
                            "future_bytes": row.future_bytes,
                            "to_one_thread": row.gain,
                            "rounds": row.used,
                        })
                    });
                    contenders.insert(subject.name.to_owned(), json!(row));
                }
            }
            workloads.insert(workload.name().to_owned(), Value::Object(contenders));
        }
        let per_key: Map<String, Value> = self
            .per_key
            .iter()
            .map(|per_key| (per_key.contender.to_owned(), json!(per_key.bytes)))
            .collect();
        json!({
            "rounds": self.rounds,
            "workloads": workloads,
            "keys": self.keys,
            "bytes_per_key": per_key,
        })
    }

    fn row(&self, workload: Workload, contender: &str) -> Option<&Row> {
        self.rows
            .iter()
            .find(|row| row.workload == workload && row.contender == contender)
    }
}

fn line(table: &mut String, workload: Workload, contender: &str, row: Option<&Row>) {
    let number = |of: fn(&Row) -> Option<f64>, digits: usize| {
        row.and_then(of)
            .map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
    };
    let _ = writeln!(
        table,
        "{:<16} {:<22} {:>9} {:>8} {:>12} {:>7} {:>7} {:>7} {:>12}",
        workload.name(),
        contender,
        number(|row| row.nanoseconds, 1),
        number(|row| row.to_bare, 1),
        number(|row| row.to_steadfast, 2),
        number(|row| row.allocations, 1),
        number(|row| row.bytes, 0),
        number(|row| Some(row.future_bytes as f64), 0),
        number(|row| row.gain, 2),
    );
}
