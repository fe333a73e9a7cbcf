//! Command-line flags of a run: sizes, durations and the shape of the data. Runs vary them, so that no optimization fits only one
//! workload.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// A flag with a value: its name, its default, its default with `--quick`, and its description.
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
    Flag("--clone-commits", "1000", "50", "commits of the history that is cloned"),
    Flag("--clone-branches", "5000", "50", "branches of the database whose refs are read"),
    Flag("--changes", "10", "10", "changed rows of a merge and of a diff"),
    Flag("--hooks", "1000", "50", "hooks of one event, and events of one hook"),
    Flag("--pending", "100000", "1000", "deliveries that are due when the server starts"),
    Flag("--items", "100000", "2000", "branches and pulls of the long lists"),
    Flag("--commits", "10000", "200", "commits of the long list"),
    Flag("--statements", "2000", "100", "statements of a deployment"),
    Flag("--crowd", "256", "64", "connections of the overload; half of them run endless queries"),
    Flag("--many", "100000", "200", "databases of a server whose start is timed"),
    Flag("--large-mb", "20000", "20", "size of a very large database"),
    Flag("--large-base-mb", "100", "5", "size of the database that it is compared with"),
    Flag("--peer-rows", "100000", "1000", "rows of the table that other servers hold too"),
    Flag("--cost-writes", "100", "100", "writes a day and database of which the cost of a store is calculated"),
    Flag("--cost-mb", "10", "10", "size of these databases"),
    Flag("--idle", "10000", "500", "connections that are open and say nothing, as far as open files allow"),
    Flag("--pace-ms", "200", "200", "pause of a cheap reader in the overload, between two reads"),
    Flag("--overload-seconds", "20", "4", "how long the overload lasts"),
];

/// The parsed flags and topics of a run.
#[derive(Debug)]
pub(crate) struct Flags {
    values: BTreeMap<&'static str, String>,
    /// File that receives the rows as JSON.
    pub(crate) json: Option<PathBuf>,
    /// Path of the `datasette` program, if it is available.
    pub(crate) datasette: Option<PathBuf>,
    /// Another build of the binary, to compare with.
    pub(crate) other: Option<PathBuf>,
    /// Folder with the programs of other servers, to compare with.
    pub(crate) peers: Option<PathBuf>,
    /// URL of an empty database in Postgres.
    pub(crate) postgres: Option<String>,
    /// URL of another empty database in Postgres.
    pub(crate) nodes_postgres: Option<String>,
    /// Topics to run. If empty, all topics run.
    pub(crate) topics: Vec<String>,
}

impl Flags {
    /// Parses the arguments.
    ///
    /// # Errors
    /// Returns an error that names the invalid argument and lists the flags.
    pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, String> {
        // Cargo appends `--bench`.
        let arguments: Vec<String> = arguments.into_iter().filter(|argument| argument != "--bench").collect();
        let quick = arguments.iter().any(|argument| argument == "--quick");
        let values =
            FLAGS.iter().map(|Flag(name, full, small, _)| (*name, if quick { small } else { full }.to_string()));
        let mut flags = Self {
            values: values.collect(),
            json: None,
            datasette: None,
            other: None,
            peers: None,
            postgres: None,
            nodes_postgres: None,
            topics: Vec::new(),
        };
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
                "--other" => flags.other = Some(value()?.into()),
                "--peers" => flags.peers = Some(value()?.into()),
                "--postgres" => flags.postgres = Some(value()?),
                "--nodes-postgres" => flags.nodes_postgres = Some(value()?),
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

    /// Returns the value of a flag.
    pub(crate) fn text(&self, name: &str) -> &str {
        &self.values[name]
    }

    /// Returns the value of a numeric flag, truncated to a whole number of at least 1.
    pub(crate) fn count(&self, name: &str) -> u64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "parsed as a number above 0")]
        let count = self.number(name) as u64;
        count.max(1)
    }

    /// Returns the value of a numeric flag.
    pub(crate) fn number(&self, name: &str) -> f64 {
        self.text(name).parse().unwrap_or(1.0)
    }
}

/// Returns the list of flags with their defaults.
pub(crate) fn usage() -> String {
    let mut text = "flags (default; with --quick):\n".to_owned();
    for Flag(name, full, small, meaning) in FLAGS {
        text.push_str(&format!("  {name:<20} {meaning} ({full}; {small})\n"));
    }
    text + "  --json FILE          write the rows there\n  --datasette FILE     compare with this Datasette\n  \
            --other FILE         compare this build with that binary (topic builds)\n  \
            --peers DIR          compare with the programs there (topic peers)\n  \
            --postgres URL       use this empty database (topic postgres)\n  \
            --nodes-postgres URL use this empty database (topic nodes)\n"
}
