//! An outage, told by its figures: what retries do to a dependency that is down, what a breaker in
//! the wrong and in the right place does, and what callers get. All through the real stack, most of
//! it on a paused clock, with the published figures beside ours.
//!
//! ```text
//! cargo run --release --example outage
//! cargo run --release --example outage -- --html
//! cargo run --release --example outage -- --help
//! ```
//!
//! What there is to see goes into `target/outage.svg`, with `--html` also into a page that can be
//! sent to somebody. Ends with 1 when a figure with published inputs leaves its band, and with 2 when the command
//! line makes no sense.

pub(crate) mod amplification;
pub(crate) mod arrangement;
pub(crate) mod blips;
mod callers;
pub(crate) mod chart;
pub(crate) mod cli;
pub(crate) mod clock;
mod dependency;
pub(crate) mod eval_jobs;
mod fifo;
mod files;
pub(crate) mod fixture;
pub(crate) mod fleet;
pub(crate) mod inputs;
pub(crate) mod jitter;
pub(crate) mod latency;
pub(crate) mod live;
pub(crate) mod load_feedback;
mod mean;
mod page;
mod parts;
mod picture;
mod progress;
mod provider;
pub(crate) mod random;
pub(crate) mod report;
pub(crate) mod retry_storm;
pub(crate) mod scenario;
pub(crate) mod scripted;
pub(crate) mod slots;
pub(crate) mod ten_second_outage;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use self::cli::{Chosen, Command, Options};
use self::page::Told;
use self::progress::Progress;

fn main() -> ExitCode {
    let arguments = std::env::args().skip(1);
    match run(arguments, &mut io::stdout().lock(), &mut io::stderr()) {
        Ok(code) => code.into(),
        // Nobody reads any more; there is nobody left to tell either.
        Err(_) => ExitCode::FAILURE,
    }
}

/// The whole program: figures go to `out`, complaints to `err`; the exit code.
///
/// # Errors
///
/// When `out` or `err` cannot be written.
pub(crate) fn run(
    arguments: impl IntoIterator<Item = String>,
    out: &mut impl Write,
    err: &mut impl Write,
) -> io::Result<u8> {
    match cli::parse(arguments) {
        Ok(Command::Run(options)) => tell(options, out, err),
        Ok(Command::Help(text)) => {
            write!(out, "{text}")?;
            Ok(0)
        }
        Err(complaint) => {
            writeln!(err, "{}", complaint.trim_end())?;
            Ok(2)
        }
    }
}

/// Runs what was chosen and tells the figures.
///
/// # Errors
///
/// When `out` or `err` cannot be written.
pub(crate) fn tell(options: Options, out: &mut impl Write, err: &mut impl Write) -> io::Result<u8> {
    let Options {
        scenarios,
        seed,
        json,
        html,
        directory,
    } = options;
    let mut told = Vec::new();
    let mut complaints = Vec::new();
    for Chosen {
        scenario,
        as_published,
    } in scenarios
    {
        let name = scenario.name();
        // A program that reads the JSON wants no chatter, a person who waits for it does.
        let watched = !json || io::stderr().is_terminal();
        let progress = watched.then(|| Progress::of(name));
        let report = scenario.run(seed);
        drop(progress);
        let report = match report {
            Ok(report) => report,
            Err(error) => {
                complaints.push(format!("{name} came to no figures: {error}"));
                continue;
            }
        };
        if as_published {
            complaints.extend(report.bands.iter().filter_map(report::Band::broken));
        }
        let summary = scenario.summary();
        if !json {
            let meaning = report::wrapped(&report.meaning);
            writeln!(out, "{name}: {summary}\n\n{}\n{meaning}", report.table)?;
        }
        told.push(Told {
            name,
            summary,
            report,
        });
    }
    match files::write(&directory, seed, html, &told) {
        Ok(paths) if !json => {
            for path in paths {
                writeln!(out, "{}", path.display())?;
            }
        }
        Ok(_) => {}
        Err(error) => complaints.push(error.to_string()),
    }
    if json {
        let mut figures = serde_json::Map::new();
        figures.insert("seed".to_owned(), seed.into());
        let told = told.into_iter();
        figures.extend(told.map(|told| (told.name.to_owned(), told.report.json)));
        writeln!(out, "{}", serde_json::Value::Object(figures))?;
    }
    for complaint in &complaints {
        writeln!(err, "{complaint}")?;
    }
    Ok(u8::from(!complaints.is_empty()))
}
