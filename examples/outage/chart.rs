//! What a scenario has to show besides its table, without a word on how it is drawn.

use std::ops::Range;

/// Lines over one pair of axes.
pub(crate) struct Chart {
    pub(crate) title: String,
    /// What runs along an axis, with its unit.
    pub(crate) x: &'static str,
    pub(crate) y: &'static str,
    pub(crate) x_range: Range<f64>,
    pub(crate) y_range: Range<f64>,
    pub(crate) scale: Scale,
    /// A stretch of the x axis that is shaded, and what it is called.
    pub(crate) shade: Option<(Range<f64>, &'static str)>,
    pub(crate) lines: Vec<Line>,
}

/// How the y axis runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    Linear,
    /// By powers of ten; what is below one is drawn as one.
    Log,
}

/// One line and its entry in the legend. Later ones are drawn over earlier ones.
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) ink: Ink,
    pub(crate) points: Vec<(f64, f64)>,
}

/// What a line looks like: the same in every chart for the same part of the story, and told apart
/// by more than its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    NoRetries,
    RetriesAlone,
    BudgetOnly,
    /// A breaker that is alone or in the wrong place.
    Breaker,
    Steadfast,
}

/// Points that hold their value until the next one, as counts per interval do: one value for each
/// `step` along the x axis.
pub(crate) fn steps(values: impl IntoIterator<Item = f64>, step: f64) -> Vec<(f64, f64)> {
    let corners = values.into_iter().enumerate().flat_map(|(index, value)| {
        let from = index as f64 * step;
        [(from, value), (from + step, value)]
    });
    corners.collect()
}

/// How many of these moments have passed by when, up to `end`: a step at each.
pub(crate) fn so_far(moments: impl IntoIterator<Item = f64>, end: f64) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    let mut count = 0.0;
    for moment in moments {
        points.extend([(moment, count), (moment, count + 1.0)]);
        count += 1.0;
    }
    points.push((end, count));
    points
}
