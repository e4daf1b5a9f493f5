//! All that was told as one HTML page that needs nothing else.

use std::fmt::Write as _;

use tower::BoxError;

use super::picture;
use super::report::{Rendered, Report};

const HEAD: &str = "<!doctype html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<title>An outage, told by its figures</title>
<style>
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 sans-serif;
  color: #222; background: #fff; }
h2 { margin-top: 3rem; }
.table { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { padding: .25rem .8rem; text-align: right; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
svg { max-width: 100%; height: auto; margin: 1rem 0; }
</style>
</head>
<body>
<h1>An outage, told by its figures</h1>
";

/// One scenario that has run.
pub(crate) struct Told {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) report: Report,
}

/// The page.
///
/// # Errors
///
/// When a picture cannot be drawn.
pub(crate) fn page(seed: u64, told: &[Told]) -> Result<String, BoxError> {
    let mut page = String::from(HEAD);
    let _ = writeln!(
        page,
        "<p>What a dependency and its callers go through, measured through the stack of \
         <code>steadfast</code> {}, beside the published figures (a dash where there is none, or \
         where an input was changed). Made by <code>cargo run --release --example outage -- \
         --html</code> with seed {seed}.</p>",
        env!("CARGO_PKG_VERSION"),
    );
    for Told {
        name,
        summary,
        report,
    } in told
    {
        let _ = writeln!(page, "<h2>{}: {}</h2>", escaped(name), escaped(summary));
        table(&mut page, &report.table);
        let _ = writeln!(page, "<p>{}</p>", escaped(&report.meaning));
        if !report.charts.is_empty() {
            page += &picture::draw(&report.charts)?;
        }
    }
    page += "</body>\n</html>\n";
    Ok(page)
}

fn table(page: &mut String, table: &Rendered) {
    *page += "<div class=\"table\"><table>\n";
    for (index, row) in table.rows().enumerate() {
        let cell = if index == 0 { "th" } else { "td" };
        *page += "<tr>";
        for text in row {
            let _ = write!(page, "<{cell}>{}</{cell}>", escaped(text));
        }
        *page += "</tr>\n";
    }
    *page += "</table></div>\n";
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
