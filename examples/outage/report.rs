//! What a scenario hands back: its figures as a table and as JSON, and the bands they must keep.

use std::fmt;
use std::ops::RangeInclusive;

use super::chart::Chart;

/// The result of one scenario.
pub(crate) struct Report {
    /// The figures.
    pub(crate) table: Rendered,
    /// What the figures mean, in one sentence.
    pub(crate) meaning: String,
    pub(crate) json: serde_json::Value,
    /// Where the figures must lie when no input was changed.
    pub(crate) bands: Vec<Band>,
    /// What there is to show of it in a picture.
    pub(crate) charts: Vec<Chart>,
}

/// A figure and the band it must keep.
pub(crate) struct Band {
    figure: String,
    ours: f64,
    allowed: RangeInclusive<f64>,
}

impl Band {
    pub(crate) fn new(figure: impl Into<String>, ours: f64, allowed: RangeInclusive<f64>) -> Self {
        Self {
            figure: figure.into(),
            ours,
            allowed,
        }
    }

    /// A figure that has one right value.
    pub(crate) fn exactly(figure: impl Into<String>, ours: f64, expected: f64) -> Self {
        Self::new(figure, ours, expected..=expected)
    }

    /// The complaint about a figure that has left its band.
    pub(crate) fn broken(&self) -> Option<String> {
        if self.allowed.contains(&self.ours) {
            return None;
        }
        let (low, high) = (self.allowed.start(), self.allowed.end());
        Some(if low == high {
            format!("{} is {}, expected {low}", self.figure, self.ours)
        } else {
            format!("{} is {}, expected {low} to {high}", self.figure, self.ours)
        })
    }
}

/// How wide a table or a sentence may be.
const WIDTH: usize = 100;

/// Rows of text under a head, the first column to the left, all others to the right.
pub(crate) struct Table<const COLUMNS: usize> {
    rows: Vec<[String; COLUMNS]>,
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    pub(crate) fn new(head: [&str; COLUMNS]) -> Self {
        Self {
            rows: vec![head.map(str::to_owned)],
        }
    }

    pub(crate) fn row(&mut self, cells: [String; COLUMNS]) {
        self.rows.push(cells);
    }

    pub(crate) fn render(self) -> Rendered {
        let rows = self.rows.into_iter().map(Vec::from);
        Rendered(rows.collect())
    }
}

/// A table that is complete. Shows itself as aligned text.
pub(crate) struct Rendered(Vec<Vec<String>>);

impl Rendered {
    /// Its rows, the head first.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &[String]> {
        self.0.iter().map(Vec::as_slice)
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.0.first().map_or(0, Vec::len);
        let mut widths = vec![0; columns];
        for row in &self.0 {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        widths
    }
}

impl fmt::Display for Rendered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        for (index, row) in self.0.iter().enumerate() {
            let mut line = String::from(" ");
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                line += &match column {
                    0 => format!(" {cell:<width$}"),
                    _ => format!("  {cell:>width$}"),
                };
            }
            writeln!(f, "{}", line.trim_end())?;
            if index == 0 {
                let dashes = widths.iter().sum::<usize>() + 2 * widths.len() - 2;
                writeln!(f, "  {}", "-".repeat(dashes))?;
            }
        }
        Ok(())
    }
}

/// Breaks a sentence into lines that fit, each two spaces in.
pub(crate) fn wrapped(sentence: &str) -> String {
    let mut text = String::new();
    let mut line = String::from(" ");
    for word in sentence.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            text += &line;
            text.push('\n');
            line = String::from(" ");
        }
        line.push(' ');
        line += word;
    }
    text + &line + "\n"
}
