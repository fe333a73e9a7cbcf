//! Settings of a deployment: the table of settings, and the values in force.

use std::collections::BTreeMap;

use branchyard_domain::values::Invalid;

/// The time at which a changed setting takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// With the next request.
    Live,
    /// For streams opened after the change.
    Stream,
    /// At the next start of the process.
    Restart,
}

/// The values that a setting accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// `true` or `false`.
    Flag,
    /// A whole number in decimal digits between two inclusive bounds.
    Integer(u64, u64),
    /// Empty, or a whole number as for [`Rule::Integer`].
    OptionalInteger(u64, u64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// Empty, `*`, or origins separated by commas.
    Origins,
}

impl Rule {
    /// Checks a value.
    ///
    /// # Errors
    /// [`Invalid`] if the value is not accepted; the message states what is.
    pub fn check(self, value: &str) -> Result<(), Invalid> {
        let within = |least: u64, most: u64| {
            let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
            digits && value.parse().is_ok_and(|number: u64| (least..=most).contains(&number))
        };
        let (fits, allowed) = match self {
            Self::Flag => (matches!(value, "true" | "false"), "must be \"true\" or \"false\"".to_owned()),
            Self::Integer(least, most) => {
                (within(least, most), format!("must be a whole number from {least} to {most}"))
            }
            Self::OptionalInteger(least, most) => (
                value.is_empty() || within(least, most),
                format!("must be empty or a whole number from {least} to {most}"),
            ),
            Self::Word(words) => (words.contains(&value), format!("must be one of {}", words.join(", "))),
            Self::Origins => {
                (origins(value), "must be empty, *, or origins such as https://example.com with commas".to_owned())
            }
        };
        if fits { Ok(()) } else { Err(Invalid::new(allowed)) }
    }
}

/// Returns `true` for a list of origins. An origin consists of a scheme, a host and an optional port.
fn origins(value: &str) -> bool {
    value.is_empty()
        || value == "*"
        || value.split(',').map(str::trim).all(|origin| {
            let host = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
            host.is_some_and(|host| {
                !host.is_empty()
                    && host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b':' | b'[' | b']'))
            })
        })
}

macro_rules! settings {
    ($($name:ident: $key:literal, $default:literal, $rule:expr, $applied:ident, $description:literal;)+) => {
        /// A setting of a deployment. The variants are in display order.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Setting {$(
            #[doc = $description]
            $name,
        )+}

        impl Setting {
            /// All settings, in display order.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// Returns the key of the setting.
            pub const fn key(self) -> &'static str {
                match self { $(Self::$name => $key),+ }
            }

            /// Returns the default value. Empty where the absence of a value has a meaning of its own.
            pub const fn default_value(self) -> &'static str {
                match self { $(Self::$name => $default),+ }
            }

            /// Returns the values that the setting accepts.
            pub const fn rule(self) -> Rule {
                match self { $(Self::$name => $rule),+ }
            }

            /// Returns the time at which a change takes effect.
            pub const fn applied(self) -> Applied {
                match self { $(Self::$name => Applied::$applied),+ }
            }

            /// Returns a description in one sentence. Numbers come with their unit.
            pub const fn description(self) -> &'static str {
                match self { $(Self::$name => $description),+ }
            }
        }
    };
}

settings! {
    BehaviorReadOnly: "behavior_read_only", "false", Rule::Flag, Live,
        "Every stream is read-only.";
    BehaviorDoltTransactionCommit: "behavior_dolt_transaction_commit", "false", Rule::Flag, Live,
        "Each write transaction becomes a commit by its caller.";
    BehaviorForeignKeys: "behavior_foreign_keys", "true", Rule::Flag, Stream,
        "Foreign keys are enforced.";
    ListenerMaxConnections: "listener_max_connections", "100", Rule::Integer(1, 1_000), Live,
        "Open streams.";
    ListenerReadTimeoutMillis: "listener_read_timeout_millis", "30000", Rule::Integer(1_000, 300_000), Live,
        "Milliseconds to receive a request.";
    ListenerWriteTimeoutMillis: "listener_write_timeout_millis", "30000", Rule::Integer(1_000, 300_000), Live,
        "Milliseconds to wait for a client that does not take its answer.";
    ListenerMaxRequestBytes: "listener_max_request_bytes", "8388608", Rule::Integer(65_536, 67_108_864), Live,
        "Bytes of a request's body.";
    ListenerAllowedOrigins: "listener_allowed_origins", "", Rule::Origins, Live,
        "Origins whose pages may use the data endpoint, with commas, or *.";
    QueryTimeoutMillis: "query_timeout_millis", "30000", Rule::Integer(100, 300_000), Live,
        "Milliseconds of one statement; a step of a cursor may take ten times as long.";
    QueryMaxResultBytes: "query_max_result_bytes", "10485760", Rule::Integer(65_536, 104_857_600), Live,
        "Bytes of the answer of a pipeline; cursors are not bound.";
    QueryMaxSqlBytes: "query_max_sql_bytes", "1048576", Rule::Integer(1_024, 16_777_216), Live,
        "Bytes of one SQL text.";
    QueryMaxBatchSteps: "query_max_batch_steps", "1000", Rule::Integer(1, 10_000), Live,
        "Steps of a batch, and requests of a pipeline.";
    QueryBusyTimeoutMillis: "query_busy_timeout_millis", "5000", Rule::Integer(0, 60_000), Live,
        "Milliseconds to wait for the writer's turn.";
    QueryThreads: "query_threads", "", Rule::OptionalInteger(1, 64), Restart,
        "Statements that run at once; empty: as many as the instance has processors.";
    EngineCacheMb: "engine_cache_mb", "", Rule::OptionalInteger(8, 65_536), Restart,
        "Megabytes of the engine's cache; empty: a quarter of the instance's memory.";
    StreamIdleTimeoutMillis: "stream_idle_timeout_millis", "10000", Rule::Integer(1_000, 600_000), Live,
        "Milliseconds after which an idle stream ends and its transaction is rolled back.";
    TransactionTimeoutMillis: "transaction_timeout_millis", "60000", Rule::Integer(1_000, 3_600_000), Live,
        "Milliseconds a transaction may take.";
    LogLevel: "log_level", "info", Rule::Word(&["error", "warn", "info", "debug"]), Live,
        "The least severity of what is logged.";
    LogQueries: "log_queries", "off", Rule::Word(&["off", "slow", "all"]), Live,
        "Which statements are logged.";
    SlowQueryMillis: "slow_query_millis", "1000", Rule::Integer(1, 300_000), Live,
        "Milliseconds from which on a statement is slow.";
    MaxLoggedQueryLen: "max_logged_query_len", "1000", Rule::Integer(0, 10_000), Live,
        "Characters kept of a logged statement.";
}

impl Setting {
    /// Returns the setting with this key.
    pub fn by_key(key: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|setting| setting.key() == key)
    }
}

/// The settings of a deployment: explicit values over the defaults.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    overrides: BTreeMap<Setting, String>,
}

impl Settings {
    /// Sets a value. `None` restores the default.
    ///
    /// # Errors
    /// [`Invalid`] if the setting does not accept the value; nothing is changed.
    pub fn set(&mut self, setting: Setting, value: Option<String>) -> Result<(), Invalid> {
        match value {
            Some(value) => {
                setting.rule().check(&value)?;
                self.overrides.insert(setting, value);
            }
            None => {
                self.overrides.remove(&setting);
            }
        }
        Ok(())
    }

    /// Returns the value in force.
    pub fn get(&self, setting: Setting) -> &str {
        self.overrides.get(&setting).map_or(setting.default_value(), String::as_str)
    }

    /// Returns `true` if the value was set explicitly, even to the default.
    pub fn is_overridden(&self, setting: Setting) -> bool {
        self.overrides.contains_key(&setting)
    }

    /// Returns the explicit values, in the order of the table.
    pub fn overrides(&self) -> impl Iterator<Item = (Setting, &str)> {
        self.overrides.iter().map(|(setting, value)| (*setting, value.as_str()))
    }

    /// Returns the value of a flag.
    pub fn flag(&self, setting: Setting) -> bool {
        self.get(setting) == "true"
    }

    /// Returns the value of a number. Returns `None` if the value is empty.
    pub fn number(&self, setting: Setting) -> Option<u64> {
        self.get(setting).parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_keeps_its_own_rule() {
        for setting in Setting::ALL {
            assert_eq!(setting.rule().check(setting.default_value()), Ok(()), "{}", setting.key());
            assert_eq!(Setting::by_key(setting.key()), Some(*setting));
        }
    }

    #[test]
    fn bounds_are_included_and_past_them_is_refused() {
        for setting in Setting::ALL {
            if let Rule::Integer(least, most) | Rule::OptionalInteger(least, most) = setting.rule() {
                for value in [least, most] {
                    assert!(setting.rule().check(&value.to_string()).is_ok(), "{} {value}", setting.key());
                }
                for value in [least.checked_sub(1), most.checked_add(1)].into_iter().flatten() {
                    assert!(setting.rule().check(&value.to_string()).is_err(), "{} {value}", setting.key());
                }
                for text in ["x", "-1", "+5", " 5", "1.0"] {
                    assert!(setting.rule().check(text).is_err(), "{} {text}", setting.key());
                }
            }
        }
    }

    #[test]
    fn origins_are_scheme_host_and_port() {
        for text in ["", "*", "https://a.example", "http://localhost:3000, https://b.example"] {
            assert!(Rule::Origins.check(text).is_ok(), "{text}");
        }
        for text in ["a.example", "https://", "https://a.example/path", "https://a.example,", "*,https://a"] {
            assert!(Rule::Origins.check(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_reset_takes_the_default_again() {
        let mut settings = Settings::default();
        assert!(settings.set(Setting::QueryThreads, Some("65".to_owned())).is_err());
        settings.set(Setting::QueryThreads, Some("4".to_owned())).expect("fits");
        assert_eq!(settings.number(Setting::QueryThreads), Some(4));
        settings.set(Setting::QueryThreads, None).expect("resets");
        assert_eq!(settings.number(Setting::QueryThreads), None);
        assert!(!settings.is_overridden(Setting::QueryThreads));
    }
}
