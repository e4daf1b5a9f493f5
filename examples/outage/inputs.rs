//! What a scenario can be given from outside: named values that are read from text and shown as
//! text, so that `--set` and `--help` need to know nothing about a scenario.

use std::num::NonZeroU32;
use std::time::Duration;

/// One named input of a scenario, borrowed from it.
pub(crate) struct Input<'a> {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) value: &'a mut dyn Value,
}

impl<'a> Input<'a> {
    pub(crate) fn new(name: &'static str, help: &'static str, value: &'a mut dyn Value) -> Self {
        Self { name, help, value }
    }
}

/// A value that can be set from the command line.
pub(crate) trait Value {
    /// The value as `--set` would take it.
    fn show(&self) -> String;

    /// Takes the value from `text`.
    ///
    /// # Errors
    ///
    /// What was expected instead; the value is unchanged then.
    fn set(&mut self, text: &str) -> Result<(), &'static str>;
}

impl Value for u32 {
    fn show(&self) -> String {
        self.to_string()
    }

    fn set(&mut self, text: &str) -> Result<(), &'static str> {
        *self = text
            .parse()
            .map_err(|_| "expected a whole number, zero or above")?;
        Ok(())
    }
}

impl Value for NonZeroU32 {
    fn show(&self) -> String {
        self.to_string()
    }

    fn set(&mut self, text: &str) -> Result<(), &'static str> {
        *self = text
            .parse()
            .map_err(|_| "expected a whole number, one or above")?;
        Ok(())
    }
}

impl Value for f64 {
    fn show(&self) -> String {
        self.to_string()
    }

    fn set(&mut self, text: &str) -> Result<(), &'static str> {
        *self = number(text).ok_or("expected a number, zero or above")?;
        Ok(())
    }
}

/// In seconds. Whole milliseconds only: that is how finely the paused clock ticks, and a finer
/// value would be rounded in silence.
impl Value for Duration {
    fn show(&self) -> String {
        self.as_secs_f64().to_string()
    }

    fn set(&mut self, text: &str) -> Result<(), &'static str> {
        *self = seconds(text).ok_or("expected seconds between 0 and 86400, whole milliseconds")?;
        Ok(())
    }
}

/// Separated by commas.
impl Value for Vec<f64> {
    fn show(&self) -> String {
        joined(self, ",")
    }

    fn set(&mut self, text: &str) -> Result<(), &'static str> {
        *self = split(text, ',', number).ok_or("expected numbers separated by commas")?;
        Ok(())
    }
}

/// In seconds, separated by commas.
impl Value for Vec<Duration> {
    fn show(&self) -> String {
        joined(
            self.iter().map(Duration::as_secs_f64).collect::<Vec<_>>(),
            ",",
        )
    }

    fn set(&mut self, text: &str) -> Result<(), &'static str> {
        *self = split(text, ',', seconds)
            .ok_or("expected seconds between 0 and 86400, whole milliseconds, with commas")?;
        Ok(())
    }
}

/// Lists separated by slashes, their items by commas.
impl Value for Vec<Vec<u32>> {
    fn show(&self) -> String {
        joined(self.iter().map(|list| joined(list, ",")), "/")
    }

    fn set(&mut self, text: &str) -> Result<(), &'static str> {
        *self = split(text, '/', |list| split(list, ',', |item| item.parse().ok()))
            .ok_or("expected whole numbers separated by commas, several lists by slashes")?;
        Ok(())
    }
}

/// Numbers as people read them: `3,890`.
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Items with a separator between them.
pub(crate) fn joined(items: impl IntoIterator<Item: ToString>, separator: &str) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    items.join(separator)
}

fn split<T>(text: &str, at: char, one: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    text.split(at).map(|part| one(part.trim())).collect()
}

fn number(text: &str) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number)
}

fn seconds(text: &str) -> Option<Duration> {
    let millis = number(text)? * 1_000.0;
    let whole = millis.round();
    let exact = (millis - whole).abs() < 1e-6;
    (exact && whole <= 86_400_000.0).then(|| Duration::from_millis(whole as u64))
}
