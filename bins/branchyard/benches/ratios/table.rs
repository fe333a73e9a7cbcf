//! The table that topics read, write, and copy. Product and baseline use the same statements and the same file.

use std::fmt::Write as _;

/// Maximum number of rows per insert statement, so that no statement exceeds its timeout.
const BATCH: u64 = 250_000;

/// A table `t` with the given numbers of rows and columns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table {
    pub(crate) rows: u64,
    /// Number of columns: `id`, `name`, `value`, and text columns.
    pub(crate) columns: u64,
}

impl Table {
    pub(crate) fn new(rows: u64, columns: u64) -> Self {
        Self { rows, columns: columns.max(3) }
    }

    /// Returns the names of the columns.
    pub(crate) fn names(self) -> Vec<String> {
        let texts = (4..=self.columns).map(|number| format!("text{number}"));
        ["id", "name", "value"].map(str::to_owned).into_iter().chain(texts).collect()
    }

    /// Returns the statements that create and fill the table, to be run in order.
    pub(crate) fn script(self) -> Vec<String> {
        let types = |name: &String| match name.as_str() {
            "id" => "id integer primary key".to_owned(),
            "value" => "value real".to_owned(),
            text => format!("{text} text"),
        };
        let columns: Vec<String> = self.names().iter().map(types).collect();
        let mut script = vec![format!("create table t ({})", columns.join(", "))];
        let texts: String = (4..=self.columns).map(|number| format!(", 'text {number} of ' || i")).collect();
        for batch in 0..self.rows.div_ceil(BATCH) {
            let (first, last) = (batch * BATCH + 1, self.rows.min((batch + 1) * BATCH));
            script.push(format!(
                "insert into t with recursive n(i) as (select {first} union all select i + 1 from n where i < {last}) \
                 select i, 'row number ' || i, i / 7.0{texts} from n"
            ));
        }
        script
    }

    /// Returns the rows as a CSV file.
    pub(crate) fn csv(self) -> String {
        let mut text = self.names().join(",");
        text.push('\n');
        for id in 1..=self.rows {
            write!(text, "{id},row number {id},{}", value(id)).unwrap();
            (4..=self.columns).for_each(|number| write!(text, ",text {number} of {id}").unwrap());
            text.push('\n');
        }
        text
    }
}

/// Returns the `value` of a row.
#[expect(clippy::cast_precision_loss, reason = "the number of a row is far below 2^53")]
pub(crate) fn value(id: u64) -> f64 {
    id as f64 / 7.0
}
