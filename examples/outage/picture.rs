//! Charts as SVG, one below the other. Nothing is asked of the system: the text is left to whoever
//! shows the picture, in the font it has.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use tower::BoxError;

use super::chart::{Chart, Ink, Line, Scale};
use super::inputs::grouped;

const WIDTH: u32 = 1_000;
const PANEL: u32 = 470;

/// Above the axes: the title, the legend and some air.
const HEAD: i32 = 96;
/// To the left of the axes; titles and legends begin there too.
const LEFT: i32 = 18;

/// Sizes that can still be read when the picture is half as wide.
const TITLE: i32 = 33;
const TEXT: i32 = 27;

const DARK: RGBColor = RGBColor(34, 34, 34);
const GRID: RGBColor = RGBColor(222, 222, 222);
const SHADE: RGBColor = RGBColor(238, 238, 238);

/// Draws the charts below each other.
///
/// # Errors
///
/// When the plotting library finds no room.
pub(crate) fn draw<'a>(
    charts: impl IntoIterator<Item = &'a Chart, IntoIter: ExactSizeIterator>,
) -> Result<String, BoxError> {
    let charts = charts.into_iter();
    let count = charts.len();
    let mut svg = String::new();
    {
        let size = (WIDTH, PANEL * count as u32);
        let sheet = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        sheet.fill(&WHITE).map_err(owned)?;
        for (panel, chart) in sheet.split_evenly((count, 1)).iter().zip(charts) {
            draw_one(panel, chart)?;
        }
        sheet.present().map_err(owned)?;
    }
    Ok(svg)
}

type Panel<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw_one(panel: &Panel<'_>, chart: &Chart) -> Result<(), BoxError> {
    let title = text(TITLE);
    panel
        .draw(&Text::new(chart.title.as_str(), (LEFT, 14), title))
        .map_err(owned)?;
    legend(panel, &chart.lines)?;

    let y = |value: f64| match chart.scale {
        Scale::Linear => value,
        Scale::Log => value.max(1.0).log10(),
    };
    let (bottom, top) = (y(chart.y_range.start), y(chart.y_range.end));
    let mut axes = ChartBuilder::on(panel)
        .margin_top(HEAD)
        .margin_right(36)
        .margin_left(6)
        .margin_bottom(8)
        .x_label_area_size(70)
        .y_label_area_size(112)
        .build_cartesian_2d(chart.x_range.clone(), bottom..top)
        .map_err(owned)?;
    if let Some((stretch, name)) = &chart.shade {
        let corners = [(stretch.start, bottom), (stretch.end, top)];
        let area = Rectangle::new(corners, SHADE.filled());
        let middle = f64::midpoint(stretch.start, stretch.end);
        let style = text(TEXT).pos(Pos::new(HPos::Center, VPos::Top));
        let name = Text::new(*name, (middle, top), style);
        axes.draw_series([area]).map_err(owned)?;
        axes.draw_series([name]).map_err(owned)?;
    }
    let labels = match chart.scale {
        Scale::Linear => 5,
        Scale::Log => (top - bottom).round() as usize + 1,
    };
    axes.configure_mesh()
        .disable_x_mesh()
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .axis_style(DARK)
        .x_labels(11)
        .y_labels(labels)
        .y_label_formatter(&|value: &f64| match chart.scale {
            Scale::Linear => number(*value),
            Scale::Log => number(10_f64.powf(*value)),
        })
        .x_label_formatter(&|value: &f64| number(*value))
        .x_desc(chart.x)
        .y_desc(chart.y)
        .label_style(text(TEXT))
        .axis_desc_style(text(TEXT))
        .draw()
        .map_err(owned)?;
    for line in &chart.lines {
        let points = line.points.iter().map(|&(x, value)| (x, y(value)));
        let inside = points.filter(|(x, _)| *x <= chart.x_range.end);
        let (style, dash) = look(line.ink);
        if let Some((length, gap)) = dash {
            let series = DashedLineSeries::new(inside, length, gap, style);
            axes.draw_series(series).map_err(owned)?;
        } else {
            let series = LineSeries::new(inside, style);
            axes.draw_series(series).map_err(owned)?;
        }
    }
    Ok(())
}

/// One row below the title: a piece of each line and its name.
fn legend(panel: &Panel<'_>, lines: &[Line]) -> Result<(), BoxError> {
    const PIECE: i32 = 34;
    /// A character is about that wide.
    const CHARACTER: f64 = 11.6;
    let y = 70;
    let mut x = LEFT;
    for line in lines {
        let (style, dash) = look(line.ink);
        let ends = [(x, y), (x + PIECE, y)];
        match dash {
            Some((length, gap)) => panel.draw(&plotters::element::DashedPathElement::new(
                ends, length, gap, style,
            )),
            None => panel.draw(&PathElement::new(ends, style)),
        }
        .map_err(owned)?;
        let style = text(TEXT).pos(Pos::new(HPos::Left, VPos::Center));
        let name = Text::new(line.name, (x + PIECE + 8, y), style);
        panel.draw(&name).map_err(owned)?;
        x += PIECE + 8 + (line.name.chars().count() as f64 * CHARACTER) as i32 + 20;
    }
    Ok(())
}

/// Colours that people with any eyes can tell apart, and dashes for prints without colour.
fn look(ink: Ink) -> (ShapeStyle, Option<(i32, i32)>) {
    let (colour, width, dash) = match ink {
        Ink::NoRetries => (RGBColor(110, 110, 110), 4, None),
        Ink::RetriesAlone => (RGBColor(213, 94, 0), 4, None),
        Ink::BudgetOnly => (RGBColor(170, 68, 153), 4, Some((18, 7))),
        Ink::Breaker => (RGBColor(0, 90, 60), 3, Some((8, 8))),
        Ink::Steadfast => (RGBColor(86, 180, 233), 9, None),
    };
    (colour.stroke_width(width), dash)
}

fn text(size: i32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&DARK)
}

/// Without decimals that say nothing.
fn number(value: f64) -> String {
    let whole = value.round();
    if (value - whole).abs() < 1e-6 && whole >= 0.0 {
        grouped(whole as u64)
    } else {
        format!("{value:.1}")
    }
}

/// The library's errors borrow from the sheet.
fn owned(error: impl std::error::Error) -> BoxError {
    error.to_string().into()
}
