//! The command line: which scenarios with which inputs, and how the figures come out.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::inputs::joined;
use super::scenario::{self, Scenario};

/// What the command line asks for.
pub(crate) enum Command {
    Help(String),
    Run(Options),
}

/// What to run.
pub(crate) struct Options {
    pub(crate) scenarios: Vec<Chosen>,
    pub(crate) seed: u64,
    pub(crate) json: bool,
    /// Whether a page is wanted besides the picture.
    pub(crate) html: bool,
    /// Where both go.
    pub(crate) directory: PathBuf,
}

/// A scenario that is to run.
pub(crate) struct Chosen {
    pub(crate) scenario: Box<dyn Scenario>,
    /// Whether all its inputs are the published ones, so that its figures must keep their bands.
    pub(crate) as_published: bool,
}

const DEFAULT_SEED: u64 = 1;

const OPTIONS: &str = "  --scenario NAME   run this one only; may be given several times
  --set KEY=VALUE   change an input, as KEY or SCENARIO.KEY; may be given several times
  --seed N          change the randomness (default 1)
  --json            one JSON object on stdout and nothing else
  --html            also write one page with tables and pictures: DIR/outage.html
  --out DIR         where the picture, DIR/outage.svg, and the page go (default target)
  --help            this list
";

/// Reads the arguments, the program's name not among them.
///
/// # Errors
///
/// The complaint, with the list of what there is instead.
pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Command, String> {
    let mut names: Vec<String> = Vec::new();
    let mut sets: Vec<String> = Vec::new();
    let mut seed = DEFAULT_SEED;
    let mut json = false;
    let mut html = false;
    let mut directory = PathBuf::from("target");
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let (option, attached) = match argument.split_once('=') {
            Some((option, value)) if option.starts_with("--") => (option, Some(value.to_owned())),
            _ => (argument.as_str(), None),
        };
        let mut value = || {
            let value = attached.clone().or_else(|| arguments.next());
            value.ok_or_else(|| format!("{option} needs a value; the options are:\n{OPTIONS}"))
        };
        match option {
            "--scenario" => names.push(value()?),
            "--set" => sets.push(value()?),
            "--seed" => {
                let text = value()?;
                let complaint = |_| format!("--seed {text}: expected a whole number");
                seed = text.parse().map_err(complaint)?;
            }
            "--out" => directory = PathBuf::from(value()?),
            "--html" if attached.is_none() => html = true,
            "--json" if attached.is_none() => json = true,
            "--help" | "-h" if attached.is_none() => return Ok(Command::Help(help())),
            _ => {
                return Err(format!(
                    "unknown option {argument}; the options are:\n{OPTIONS}"
                ));
            }
        }
    }
    let mut scenarios = chosen(&names)?;
    for set in &sets {
        apply(set, &mut scenarios)?;
    }
    for Chosen { scenario, .. } in &scenarios {
        scenario
            .check()
            .map_err(|complaint| format!("{}.{complaint}", scenario.name()))?;
    }
    Ok(Command::Run(Options {
        scenarios,
        seed,
        json,
        html,
        directory,
    }))
}

/// The scenarios with these names, in their own order; all of them for no name.
fn chosen(names: &[String]) -> Result<Vec<Chosen>, String> {
    let all = scenario::all();
    let known = |name: &String| all.iter().any(|scenario| scenario.name() == name);
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        let list = joined(all.iter().map(|scenario| scenario.name()), ", ");
        return Err(format!(
            "unknown scenario {unknown}; the scenarios are: {list}"
        ));
    }
    let wanted = |scenario: &dyn Scenario| {
        names.is_empty() || names.iter().any(|name| name == scenario.name())
    };
    Ok(all
        .into_iter()
        .filter(|scenario| wanted(scenario.as_ref()))
        .map(|scenario| Chosen {
            scenario,
            as_published: true,
        })
        .collect())
}

/// Changes one input of one of `scenarios`.
fn apply(set: &str, scenarios: &mut [Chosen]) -> Result<(), String> {
    let (key, text) = set
        .split_once('=')
        .ok_or_else(|| format!("--set {set}: expected KEY=VALUE"))?;
    let (owner, name) = match key.split_once('.') {
        Some((owner, name)) => (Some(owner), name),
        None => (None, key),
    };
    let mut takers: Vec<&mut Chosen> = scenarios
        .iter_mut()
        .filter(|chosen| owner.is_none_or(|owner| owner == chosen.scenario.name()))
        .filter_map(|chosen| {
            let has = chosen
                .scenario
                .inputs()
                .iter()
                .any(|input| input.name == name);
            has.then_some(chosen)
        })
        .collect();
    let taker = match takers.as_mut_slice() {
        [taker] => taker,
        [] => {
            let keys = scenarios.iter_mut().flat_map(|chosen| {
                let owner = chosen.scenario.name();
                let inputs = chosen.scenario.inputs();
                inputs
                    .iter()
                    .map(|input| format!("{owner}.{}", input.name))
                    .collect::<Vec<_>>()
            });
            let list = joined(keys, "\n  ");
            return Err(format!(
                "unknown key {key}; the keys of what is to run are:\n  {list}"
            ));
        }
        several => {
            let list = several
                .iter()
                .map(|taker| format!("{}.{name}", taker.scenario.name()));
            return Err(format!(
                "key {key} is ambiguous; it can be: {}",
                joined(list, ", ")
            ));
        }
    };
    let owner = taker.scenario.name();
    for input in taker.scenario.inputs() {
        if input.name == name {
            let before = input.value.show();
            let complaint = |expected| format!("{owner}.{name}={text}: {expected}");
            input.value.set(text).map_err(complaint)?;
            taker.as_published &= input.value.show() == before;
        }
    }
    Ok(())
}

fn help() -> String {
    let mut text = format!(
        "An outage, told by its figures: through the steadfast stack, beside the references.\n\n\
         cargo run --release --example outage -- [OPTIONS]\n\n{OPTIONS}\n\
         Scenarios and the inputs that --set changes, with their defaults:\n"
    );
    for mut scenario in scenario::all() {
        let _ = write!(text, "\n  {}: {}\n", scenario.name(), scenario.summary());
        for input in scenario.inputs() {
            let setting = format!("{}={}", input.name, input.value.show());
            let _ = writeln!(text, "    {setting:<28} {}", input.help);
        }
    }
    text
}
