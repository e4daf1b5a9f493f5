//! The gateway example's page in a browser: what it shows when a host is broken
//! and when it is mended.
//!
//! `.ci/run --long` runs it where there is a Chromium. By hand:
//!
//! ```sh
//! cargo build --all-features --example gateway
//! cargo test --all-features --test test_gateway_page -- --ignored --nocapture
//! ```
//!
//! Pictures of both states stay in `target/tmp`.

#![cfg(all(unix, feature = "serde"))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod browser;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use browser::Browser;

/// The example under its own load. Ended when dropped.
struct Gateway {
    process: Child,
    url: String,
}

impl Gateway {
    fn start() -> Self {
        let test = std::env::current_exe().unwrap();
        let program = test.parent().unwrap().with_file_name("examples/gateway");
        let mut process = Command::new(&program)
            .args(["--serve", "0"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}; is it built?", program.display()));
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let url = loop {
            let line = lines.next().expect("it says where it is").unwrap();
            if let Some(url) = line.strip_prefix("look at ") {
                break url.to_owned();
            }
        };
        Self { process, url }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The browser that `CHROMIUM` names, or one of the usual names on the path.
fn chromium() -> PathBuf {
    if let Some(named) = std::env::var_os("CHROMIUM") {
        return named.into();
    }
    let path = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&path).find_map(|folder| {
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let mut programs = names.iter().map(|name| folder.join(name));
        programs.find(|program| program.is_file())
    });
    found.expect("no Chromium on the path")
}

/// Waits in the page until the expression holds, and tells what it shows then.
fn until(browser: &mut Browser, what: &str, seconds: u32) -> String {
    let look = format!(
        "new Promise(done => {{
            const started = performance.now();
            const look = () => {{
                const late = performance.now() - started > {seconds} * 1000;
                if ({what} || late) done((late ? 'LATE: ' : '') + document.body.innerText);
                else setTimeout(look, 20);
            }};
            look();
        }})"
    );
    let shown = browser.evaluate(&look);
    let shown = shown.as_str().unwrap().to_owned();
    assert!(!shown.starts_with("LATE"), "{what}: never in {shown}");
    shown
}

fn state(host: &str, state: &str) -> String {
    format!("document.getElementById('state-{host}').textContent === '{state}'")
}

fn number(id: &str) -> String {
    format!("parseFloat(document.getElementById('{id}').textContent)")
}

fn click(browser: &mut Browser, id: &str) {
    browser.evaluate(&format!("document.getElementById('{id}').click()"));
}

#[test]
#[ignore = "needs a Chromium and the built example; .ci/run --long runs it"]
fn a_host_that_is_broken_is_shown_open_and_mended_closed_again() {
    let gateway = Gateway::start();
    let output = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut browser = Browser::start(&chromium(), output);
    browser.open(&gateway.url);

    // Well: one attempt per call, nothing refused, a full budget.
    let primary = |name| state("primary", name);
    until(&mut browser, &format!("{} > 10", number("calls")), 30);
    until(&mut browser, &primary("closed"), 5);
    assert_eq!(browser.evaluate(&number("attempts")), 1);
    assert_eq!(browser.evaluate(&number("refused")), 0);
    assert_eq!(browser.evaluate(&number("budget")), 10);

    // Broken: its breaker opens, the other host serves, nobody goes without.
    click(&mut browser, "fails-primary");
    until(&mut browser, &primary("open"), 20);
    until(&mut browser, &state("replica", "closed"), 5);
    let all_served = format!(
        "{} && {} > 90 && {} < 0.5 && {} === 0",
        primary("open"),
        number("served"),
        number("attempts"),
        number("errors"),
    );
    let shown = until(&mut browser, &all_served, 30);
    assert!(shown.contains("primary: closed → open"), "{shown}");
    assert!(shown.contains("asks again in"), "{shown}");
    let pressed = "document.getElementById('fails-primary').getAttribute('aria-pressed')";
    assert_eq!(browser.evaluate(pressed), "true");
    browser.screenshot(&output.join("gateway-broken.png"));

    // Mended: a probe finds out, a growing share passes, then all.
    click(&mut browser, "works-primary");
    until(&mut browser, &primary("recovering"), 20);
    let shown = until(&mut browser, &primary("closed"), 20);
    assert!(shown.contains("primary: recovering → closed"), "{shown}");
    let well = format!("{} === 0 && {} === 1", number("served"), number("attempts"));
    until(&mut browser, &well, 20);
    browser.screenshot(&output.join("gateway-mended.png"));
    println!("pictures are in {}", output.display());
}
