//! The command line.

use crate::subject::{SUBJECTS, Subject};
use crate::workload::Workload;

pub const USAGE: &str = "\
usage: steadfast-peers [--json] [--rounds N] [--keys N]
       steadfast-peers --only CONTENDER --workload WORKLOAD --calls N
       steadfast-peers --list";

pub enum Command {
    /// Everything, side by side.
    Compare {
        json: bool,
        rounds: u32,
        keys: u64,
    },
    /// One contender on one workload, for an instruction counter to look at.
    Only {
        subject: &'static Subject,
        workload: Workload,
        calls: u64,
    },
    /// What `Only` can be asked for, one pair a line.
    List,
    Help,
}

/// About a minute, two where other programs keep the machine busy.
const ROUNDS: u64 = 100;

/// The command, or what is wrong with which argument.
pub fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Command, String> {
    let (mut json, mut list) = (false, false);
    let (mut rounds, mut keys, mut calls) = (None, None, None);
    let (mut subject, mut workload) = (None, None);
    while let Some(name) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{name} needs a value"));
        match name.as_str() {
            "--json" => json = true,
            "--list" => list = true,
            "--help" | "-h" => return Ok(Command::Help),
            "--rounds" => rounds = Some(number(&name, &value()?)?),
            "--keys" => keys = Some(number(&name, &value()?)?),
            "--calls" => calls = Some(number(&name, &value()?)?),
            "--only" => subject = Some(named(&name, &value()?, &SUBJECTS, |s| s.name)?),
            "--workload" => {
                workload = Some(named(&name, &value()?, &Workload::ALL, |w| w.name())?);
            }
            _ => return Err(format!("there is no argument {name}")),
        }
    }
    let compares = json || rounds.is_some() || keys.is_some();
    match (subject, workload, calls) {
        (None, None, None) if list && !compares => Ok(Command::List),
        (None, None, None) if !list => Ok(Command::Compare {
            json,
            rounds: u32::try_from(rounds.unwrap_or(ROUNDS))
                .map_err(|_| format!("--rounds {}: too many", rounds.unwrap_or(ROUNDS)))?,
            keys: keys.unwrap_or(100_000),
        }),
        (Some(subject), Some(&workload), Some(calls)) if !list && !compares => Ok(Command::Only {
            subject,
            workload,
            calls,
        }),
        (None, None, None) => Err("--list takes nothing else".to_owned()),
        _ => Err("--only, --workload and --calls go together, without others".to_owned()),
    }
}

fn number(name: &str, value: &str) -> Result<u64, String> {
    match value.parse() {
        Ok(0) | Err(_) => Err(format!(
            "{name} {value}: a whole number from 1 on is needed"
        )),
        Ok(number) => Ok(number),
    }
}

fn named<T>(
    name: &str,
    value: &str,
    all: &'static [T],
    name_of: fn(&T) -> &'static str,
) -> Result<&'static T, String> {
    all.iter().find(|one| name_of(one) == value).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(name_of).collect();
        format!("{name} {value}: there are only {}", names.join(", "))
    })
}
