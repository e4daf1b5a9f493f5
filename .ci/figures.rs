//! Checks that a file holds exactly one JSON object, and figures in it:
//! `figures FILE PATH=LOW..HIGH …`. Either bound may be left out, both too: the
//! number must then only be there. Needs nothing but the compiler, so that it
//! runs wherever the crate does.

use std::collections::HashMap;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().expect("a file's name");
    let text = std::fs::read_to_string(&file).expect("a readable file");
    let numbers = match numbers_of(&text) {
        Ok(numbers) => numbers,
        Err(problem) => {
            eprintln!("{file} is not one JSON object: {problem}");
            return ExitCode::FAILURE;
        }
    };
    let wrong: Vec<String> = arguments
        .filter_map(|check| out_of_band(&numbers, &check))
        .collect();
    for line in &wrong {
        eprintln!("{line}");
    }
    if wrong.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// What is wrong with the figure, if anything.
fn out_of_band(numbers: &HashMap<String, f64>, check: &str) -> Option<String> {
    let (path, band) = check.split_once('=').expect("PATH=LOW..HIGH");
    let (low, high) = band.split_once("..").expect("LOW..HIGH");
    let bound = |text: &str, open: f64| match text {
        "" => open,
        number => number.parse().expect("a number as bound"),
    };
    match numbers.get(path) {
        None => Some(format!("{path}: no such number")),
        Some(n) if *n < bound(low, f64::NEG_INFINITY) || *n > bound(high, f64::INFINITY) => {
            Some(format!("{path} is {n}, not within {band}"))
        }
        Some(_) => None,
    }
}

/// Every number of the document under its dotted path.
fn numbers_of(text: &str) -> Result<HashMap<String, f64>, String> {
    let mut reader = Reader {
        text: text.as_bytes(),
        at: 0,
        numbers: HashMap::new(),
    };
    reader.blank();
    if reader.peek() != Some(b'{') {
        return Err("it does not begin with {".into());
    }
    reader.value("")?;
    reader.blank();
    match reader.peek() {
        None => Ok(reader.numbers),
        Some(_) => Err(format!("something follows at byte {}", reader.at)),
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    numbers: HashMap<String, f64>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn blank(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn take(&mut self, wanted: u8) -> Result<(), String> {
        if self.peek() == Some(wanted) {
            self.at += 1;
            return Ok(());
        }
        Err(format!("no {} at byte {}", char::from(wanted), self.at))
    }

    /// Whether another element follows; else the closing mark is consumed.
    fn more(&mut self, close: u8) -> Result<bool, String> {
        self.blank();
        if self.peek() == Some(b',') {
            self.at += 1;
            self.blank();
            return Ok(true);
        }
        self.take(close).map(|()| false)
    }

    fn value(&mut self, path: &str) -> Result<(), String> {
        match self.peek() {
            Some(b'{') => self.object(path),
            Some(b'[') => self.list(path),
            Some(b'"') => self.string().map(drop),
            Some(b'-' | b'0'..=b'9') => self.number(path),
            _ => self.word(),
        }
    }

    fn object(&mut self, path: &str) -> Result<(), String> {
        self.take(b'{')?;
        self.blank();
        if self.peek() == Some(b'}') {
            return self.take(b'}');
        }
        loop {
            let key = self.string()?;
            self.blank();
            self.take(b':')?;
            self.blank();
            self.value(&join(path, &key))?;
            if !self.more(b'}')? {
                return Ok(());
            }
        }
    }

    fn list(&mut self, path: &str) -> Result<(), String> {
        self.take(b'[')?;
        self.blank();
        if self.peek() == Some(b']') {
            return self.take(b']');
        }
        for index in 0_usize.. {
            self.value(&join(path, &index.to_string()))?;
            if !self.more(b']')? {
                break;
            }
        }
        Ok(())
    }

    /// The raw text between the quotes; escapes are stepped over, not resolved.
    fn string(&mut self) -> Result<String, String> {
        self.take(b'"')?;
        let start = self.at;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => self.at += 2,
                Some(byte) if byte >= b' ' => self.at += 1,
                _ => return Err(format!("a string ends badly at byte {}", self.at)),
            }
        }
        let raw = String::from_utf8_lossy(&self.text[start..self.at]).into_owned();
        self.at += 1;
        Ok(raw)
    }

    fn number(&mut self, path: &str) -> Result<(), String> {
        let start = self.at;
        while matches!(
            self.peek(),
            Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')
        ) {
            self.at += 1;
        }
        let raw = String::from_utf8_lossy(&self.text[start..self.at]);
        let number = raw.parse().map_err(|_| format!("{raw} is no number"))?;
        self.numbers.insert(path.to_owned(), number);
        Ok(())
    }

    fn word(&mut self) -> Result<(), String> {
        for word in ["true", "false", "null"] {
            if self.text[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(());
            }
        }
        Err(format!("no value at byte {}", self.at))
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}
