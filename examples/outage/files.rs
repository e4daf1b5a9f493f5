//! What is kept of a run: the picture, and the page if it is wanted.

use std::fs;
use std::path::{Path, PathBuf};

use tower::BoxError;

use super::page::{Told, page};
use super::picture;

/// Writes the picture of all charts, if there are any, and the page; the paths of both.
///
/// # Errors
///
/// When something cannot be drawn or written.
pub(crate) fn write(
    directory: &Path,
    seed: u64,
    html: bool,
    told: &[Told],
) -> Result<Vec<PathBuf>, BoxError> {
    let mut files = Vec::new();
    let charts = told.iter().flat_map(|told| &told.report.charts);
    let charts: Vec<_> = charts.collect();
    if !charts.is_empty() {
        files.push((directory.join("outage.svg"), picture::draw(charts)?));
    }
    if html {
        files.push((directory.join("outage.html"), page(seed, told)?));
    }
    let mut paths = Vec::new();
    for (path, text) in files {
        let complaint = |error| format!("{} cannot be written: {error}", path.display());
        fs::create_dir_all(directory).map_err(complaint)?;
        fs::write(&path, text).map_err(complaint)?;
        paths.push(path);
    }
    Ok(paths)
}
