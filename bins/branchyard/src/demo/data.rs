//! The bundled data set. `demo-data/SOURCES.md` names its source and license.

/// A table of the data set.
pub(super) struct DemoTable {
    pub(super) name: &'static str,
    pub(super) file: &'static str,
    pub(super) csv: &'static str,
    pub(super) key: &'static [&'static str],
}

/// The tables, ordered so that each table follows the tables it references.
pub(super) const TABLES: [DemoTable; 3] = [
    DemoTable {
        name: "currencies",
        file: "currencies.csv",
        csv: include_str!("../../demo-data/currencies.csv"),
        key: &["code"],
    },
    DemoTable {
        name: "countries",
        file: "countries.csv",
        csv: include_str!("../../demo-data/countries.csv"),
        key: &["code"],
    },
    DemoTable {
        name: "languages_spoken",
        file: "languages_spoken.csv",
        csv: include_str!("../../demo-data/languages_spoken.csv"),
        key: &["country", "language"],
    },
];
