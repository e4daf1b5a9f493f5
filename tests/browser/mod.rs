//! A headless Chromium on the other end of a pipe, spoken to in the protocol
//! of its developer tools: JSON messages with a zero byte behind each.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// How long any answer of the browser may take; it shares the machine with
/// compilers.
const PATIENCE: Duration = Duration::from_secs(60);

/// The browser with one page. Ended when dropped.
pub(crate) struct Browser {
    process: Child,
    requests: ChildStdin,
    answers: Receiver<Value>,
    profile: PathBuf,
    session: Option<String>,
    next: u64,
}

impl Browser {
    /// Starts `program` with an empty profile below `scratch`.
    pub(crate) fn start(program: &Path, scratch: &Path) -> Self {
        let profile = scratch.join(format!("chromium-{}", std::process::id()));
        std::fs::create_dir_all(&profile).unwrap();
        // The browser reads its third descriptor and writes its fourth.
        let mut process = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 0</dev/null 1>&2"])
            .arg(program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--remote-debugging-pipe",
                "--window-size=1100,1000",
            ])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let requests = process.stdin.take().unwrap();
        let mut out = BufReader::new(process.stdout.take().unwrap());
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while out.read_until(0, &mut message).is_ok_and(|read| read > 0) {
                let text = message.strip_suffix(&[0]).unwrap_or(&message);
                let Ok(value) = serde_json::from_slice(text) else {
                    break;
                };
                if sender.send(value).is_err() {
                    break;
                }
                message.clear();
            }
        });
        let mut browser = Self {
            process,
            requests,
            answers,
            profile,
            session: None,
            next: 0,
        };
        let target = browser.ask("Target.createTarget", &json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.ask("Target.attachToTarget", &target);
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        browser
    }

    pub(crate) fn open(&mut self, url: &str) {
        let opened = self.ask("Page.navigate", &json!({ "url": url }));
        assert!(opened["errorText"].is_null(), "{url}: {opened}");
    }

    /// The value of a JavaScript expression; of a promise, what it comes to.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let parameters =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.ask("Runtime.evaluate", &parameters);
        let failed = &answer["exceptionDetails"];
        assert!(failed.is_null(), "{expression}: {failed}");
        answer["result"]["value"].take()
    }

    /// A picture of the whole page.
    pub(crate) fn screenshot(&mut self, file: &Path) {
        let whole = json!({ "format": "png", "captureBeyondViewport": true });
        let picture = self.ask("Page.captureScreenshot", &whole);
        let picture = from_base64(picture["data"].as_str().unwrap());
        std::fs::write(file, picture).unwrap();
    }

    fn ask(&mut self, method: &str, parameters: &Value) -> Value {
        self.next += 1;
        let mut request = json!({ "id": self.next, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            request["sessionId"] = json!(session);
        }
        self.requests
            .write_all(request.to_string().as_bytes())
            .unwrap();
        self.requests.write_all(&[0]).unwrap();
        self.requests.flush().unwrap();
        loop {
            let mut answer = match self.answers.recv_timeout(PATIENCE) {
                Ok(answer) => answer,
                Err(RecvTimeoutError::Timeout) => panic!("{method}: no answer"),
                Err(RecvTimeoutError::Disconnected) => panic!("{method}: the browser is gone"),
            };
            if answer["id"] == self.next {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].take();
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let close = json!({ "id": u32::MAX, "method": "Browser.close" }).to_string();
        // It may be gone already.
        let _ = self.requests.write_all(close.as_bytes());
        let _ = self.requests.write_all(&[0]);
        let _ = self.requests.flush();
        // What it says until its end of the pipe is closed.
        while self.answers.recv_timeout(Duration::from_secs(10)).is_ok() {}
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    let digits = text.bytes().filter_map(|byte| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    });
    let (mut bits, mut count, mut bytes) = (0_u32, 0, Vec::new());
    for digit in digits {
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    bytes
}
