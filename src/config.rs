//! What is said when settings cannot work.

/// A setting that cannot work, found before the first call is made.
///
/// It names the setting and the offending value, so that a message in a start-up log is enough to
/// find the line to change. Impossible settings are always this error and never a panic or a value
/// that is bent to fit in silence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("field `{field}`: value {value}: {problem}")]
pub struct ConfigError {
    field: &'static str,
    value: String,
    problem: &'static str,
}

impl ConfigError {
    #[expect(
        clippy::needless_pass_by_value,
        reason = "callers hand over numbers and fresh strings"
    )]
    pub(crate) fn new(
        field: &'static str,
        value: impl ToString,
        problem: &'static str,
    ) -> ConfigError {
        ConfigError {
            field,
            value: value.to_string(),
            problem,
        }
    }

    /// The setting at fault, named as its builder method, with the part it belongs to in front:
    /// `max_attempts`, `backoff.base`.
    #[must_use]
    pub fn field(&self) -> &str {
        self.field
    }

    /// The offending value, as text.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Why the value cannot work.
    #[must_use]
    pub fn problem(&self) -> &str {
        self.problem
    }
}

#[cfg(test)]
mod tests {
    use super::ConfigError;

    #[test]
    fn the_text_names_field_value_and_problem() {
        let error = ConfigError::new("max_attempts", 0, "must be at least 1");
        assert_eq!(
            error.to_string(),
            "field `max_attempts`: value 0: must be at least 1"
        );
        assert_eq!(
            (error.field(), error.value(), error.problem()),
            ("max_attempts", "0", "must be at least 1")
        );
    }

    #[test]
    fn it_crosses_threads_as_a_boxed_error() {
        let error = ConfigError::new("backoff.factor", f64::NAN, "must be a number");
        let boxed: Box<dyn std::error::Error + Send + Sync> = error.clone().into();
        assert_eq!(boxed.downcast_ref::<ConfigError>(), Some(&error));
        assert_eq!(error.value(), "NaN");
    }
}
