//! What may be asked of a run: sizes, lengths and shapes, so that nothing is tuned to one of them.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// A flag that takes a value, what it is by default, what it is with `--quick`, and what it means.
struct Flag(&'static str, &'static str, &'static str, &'static str);

const FLAGS: &[Flag] = &[
    Flag("--connections", "16", "8", "keep-alive connections that read at once"),
    Flag("--seconds", "2", "0.3", "length of a slice; product and baseline take turns"),
    Flag("--slices", "7", "3", "slices of each side; their median is reported"),
    Flag("--small-rows", "10000", "1000", "rows of the table that is read by primary key"),
    Flag("--rows", "1000000", "20000", "rows of the large table"),
    Flag("--columns", "3", "3", "columns of the tables, 3 at least"),
    Flag("--page-rows", "1000", "1000", "rows of a JSON page"),
    Flag("--statement", "select * from t where id = {id}", "select * from t where id = {id}", "the read; {id} varies"),
    Flag("--proof", "row number {id}", "row number {id}", "what every answer to it must hold"),
    Flag("--databases", "16", "4", "databases, and callers, that are written to at once"),
    Flag("--repeats", "5", "3", "how often a fork, a merge, an import or a stream is timed"),
    Flag("--fork-mb", "1000", "20", "size of the database whose fork is compared with a copy of its file"),
    Flag("--changes", "10", "10", "changed rows of a merge and of a diff"),
    Flag("--hooks", "1000", "50", "hooks of one event, and events of one hook"),
    Flag("--pending", "100000", "1000", "deliveries that are due when the server starts"),
    Flag("--items", "100000", "2000", "branches and pulls of the long lists"),
    Flag("--commits", "10000", "200", "commits of the long list"),
    Flag("--statements", "2000", "100", "statements of a deployment"),
    Flag("--crowd", "256", "64", "connections of the overload; half of them run endless queries"),
    Flag("--idle", "10000", "500", "connections that are open and say nothing, as far as open files allow"),
    Flag("--pace-ms", "200", "200", "pause of a cheap reader in the overload, between two reads"),
    Flag("--overload-seconds", "20", "4", "how long the overload lasts"),
];

/// The flags of a run, and the topics it is about.
#[derive(Debug)]
pub(crate) struct Flags {
    values: BTreeMap<&'static str, String>,
    /// Where the rows are written as JSON.
    pub(crate) json: Option<PathBuf>,
    /// The `datasette` program, where there is one.
    pub(crate) datasette: Option<PathBuf>,
    /// All of them when empty.
    pub(crate) topics: Vec<String>,
}

impl Flags {
    /// Reads the arguments.
    ///
    /// # Errors
    /// Says which argument is wrong, and what there is.
    pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, String> {
        // Cargo adds `--bench`.
        let arguments: Vec<String> = arguments.into_iter().filter(|argument| argument != "--bench").collect();
        let quick = arguments.iter().any(|argument| argument == "--quick");
        let values =
            FLAGS.iter().map(|Flag(name, full, small, _)| (*name, if quick { small } else { full }.to_string()));
        let mut flags = Self { values: values.collect(), json: None, datasette: None, topics: Vec::new() };
        let mut arguments = arguments.into_iter().filter(|argument| argument != "--quick");
        while let Some(argument) = arguments.next() {
            if !argument.starts_with("--") {
                flags.topics.push(argument);
                continue;
            }
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} takes a value\n\n{}", usage()));
            match argument.as_str() {
                "--json" => flags.json = Some(value()?.into()),
                "--datasette" => flags.datasette = Some(value()?.into()),
                name => match flags.values.get_mut(name) {
                    Some(known) => *known = value()?,
                    None => return Err(format!("no flag {argument}\n\n{}", usage())),
                },
            }
        }
        for Flag(name, full, ..) in FLAGS {
            let is_number = full.parse::<f64>().is_ok();
            if is_number && !flags.text(name).parse::<f64>().is_ok_and(|number| number > 0.0) {
                return Err(format!("{name} takes a number above 0, not `{}`", flags.text(name)));
            }
        }
        Ok(flags)
    }

    /// A text.
    pub(crate) fn text(&self, name: &str) -> &str {
        &self.values[name]
    }

    /// A whole number.
    pub(crate) fn count(&self, name: &str) -> u64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "parsed as a number above 0")]
        let count = self.number(name) as u64;
        count.max(1)
    }

    /// A number.
    pub(crate) fn number(&self, name: &str) -> f64 {
        self.text(name).parse().unwrap_or(1.0)
    }
}

/// Every flag with its default.
pub(crate) fn usage() -> String {
    let mut text = "flags (default; with --quick):\n".to_owned();
    for Flag(name, full, small, meaning) in FLAGS {
        text.push_str(&format!("  {name:<20} {meaning} ({full}; {small})\n"));
    }
    text + "  --json FILE          write the rows there\n  --datasette FILE     compare with this Datasette\n"
}
