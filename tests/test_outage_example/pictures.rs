//! The picture and the page: that they hold what was told, and need nothing else.

use std::fs;
use std::path::PathBuf;

use super::outage;

fn run(name: &str, arguments: &str) -> (PathBuf, String) {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    let fixed = [String::from("--out"), directory.display().to_string()];
    let arguments = arguments.split_whitespace().map(str::to_owned);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = outage::run(fixed.into_iter().chain(arguments), &mut out, &mut err);
    let err = String::from_utf8_lossy(&err);
    assert_eq!((code.expect("memory takes it all"), &*err), (0, ""));
    (directory, String::from_utf8(out).expect("text"))
}

#[test]
fn the_picture_has_axes_with_units_and_a_legend_and_both_paths_are_told() {
    let (directory, out) = run("picture", "--scenario ten_second_outage --html");
    let svg = fs::read_to_string(directory.join("outage.svg")).unwrap();
    for text in [
        "attempts so far",
        "seconds since the outage began",
        "retries alone",
        "breaker around the loop",
        "steadfast",
        "10,000",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    for file in ["outage.svg", "outage.html"] {
        let path = directory.join(file).display().to_string();
        assert!(out.lines().any(|line| line == path), "{out}");
    }
}

#[test]
fn the_page_holds_tables_and_pictures_and_asks_for_nothing_else() {
    let arguments = "--scenario ten_second_outage --scenario fixture --set threshold=4";
    let arguments = format!("{arguments} --html --json").replace("threshold", "fixture.threshold");
    let (directory, out) = run("page", &arguments);
    assert!(!out.contains("outage.html"), "{out}");
    let page = fs::read_to_string(directory.join("outage.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), 1);
    assert_eq!(page.matches("<table>").count(), 2);
    assert!(page.contains("<td>3,890</td>"), "{page}");
    assert!(page.contains("<td>33</td>"), "{page}");
    for elsewhere in ["src=", "href=", "url(", "@import", "<script", "<link"] {
        assert!(!page.contains(elsewhere), "{elsewhere}");
    }
}

#[test]
fn without_anything_to_see_there_is_no_picture() {
    let (directory, out) = run("none", "--scenario fixture");
    assert!(!directory.exists());
    assert!(!out.contains("outage.svg"), "{out}");
}

#[test]
fn a_place_that_cannot_be_written_to_is_an_error_that_names_it() {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("a file");
    fs::write(&file, "").unwrap();
    let arguments = ["--scenario", "fixture", "--html", "--out"].map(str::to_owned);
    let place = file.display().to_string();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let arguments = arguments.into_iter().chain([place.clone()]);
    let code = outage::run(arguments, &mut out, &mut err).expect("memory takes it all");
    let err = String::from_utf8_lossy(&err);
    assert_eq!(code, 1);
    assert!(
        err.contains(&place) && err.contains("cannot be written"),
        "{err}"
    );
}
