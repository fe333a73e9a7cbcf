//! The order of rows, and the conditions that select the rows after a position.

use branchyard_domain::entities::Cell;
use branchyard_domain::ports::{EngineError, Selection, SqlFailure};
use branchyard_sqlite_lexer::quote_name;

use crate::connection::Connection;
use crate::diff::TableSide;
use crate::schema;

/// The order in which rows are sorted.
pub(super) struct ScanOrder {
    terms: Vec<Term>,
    descending: bool,
    /// Whether the first term is not part of the key. Only such a term may be NULL.
    begins_beside_key: bool,
    /// Whether no two rows are equal in all terms.
    is_total: bool,
}

struct Term {
    sql: String,
    /// The column of the table, from 0; `None` for the row id.
    column: Option<usize>,
}

/// Rows that one statement returns in the order of an index. In SQL a comparison with NULL is neither true nor false,
/// so rows with NULL form a part of their own.
#[derive(Default)]
pub(super) struct ScanPart {
    pub(super) condition: Option<String>,
    pub(super) values: Vec<Cell>,
}

impl ScanPart {
    fn new(condition: String, values: &[Cell]) -> Self {
        Self { condition: Some(condition), values: values.to_vec() }
    }
}

impl ScanOrder {
    pub(super) fn of(connection: &Connection, table: &TableSide, wanted: &Selection<'_>) -> rusqlite::Result<Self> {
        let mut order = Self {
            terms: Vec::new(),
            descending: wanted.order.is_some_and(|order| order.descending) != wanted.backwards,
            begins_beside_key: false,
            is_total: false,
        };
        let key = if table.is_view { Vec::new() } else { schema::key_collations(connection, &table.name)? };
        // A key may use another collation than its column, and rows are guaranteed to differ only under the collation
        // of the key.
        let term = |name: &str| {
            let collation = key.iter().find(|(column, _)| column.eq_ignore_ascii_case(name));
            let collation = collation.map(|(_, collation)| format!(" COLLATE {}", quote_name(collation)));
            let column = table.columns.iter().position(|column| column.eq_ignore_ascii_case(name));
            Term { sql: quote_name(name) + &collation.unwrap_or_default(), column }
        };
        if let Some(by) = wanted.order {
            order.begins_beside_key = !table.key.iter().any(|column| column.eq_ignore_ascii_case(by.column));
            order.terms.push(term(by.column));
        }
        if table.is_view {
            return Ok(order);
        }
        let is_first = |name: &str| wanted.order.is_some_and(|by| by.column.eq_ignore_ascii_case(name));
        order.terms.extend(table.key.iter().filter(|name| !is_first(name)).map(|name| term(name)));
        order.is_total = !table.key.is_empty();
        if let Some(row_id) = table.row_id().filter(|_| table.key.is_empty()) {
            order.terms.push(Term { sql: row_id.to_owned(), column: None });
            order.is_total = true;
        }
        Ok(order)
    }

    /// Returns the expressions that are selected before the columns of the table.
    pub(super) fn selected(&self) -> String {
        self.terms.iter().filter(|term| term.column.is_none()).map(|term| format!("{}, ", term.sql)).collect()
    }

    /// Returns the number of expressions in [`Self::selected`].
    pub(super) fn selected_values(&self) -> usize {
        self.terms.iter().filter(|term| term.column.is_none()).count()
    }

    /// Returns the positions, among the selected values, of the values that identify a row's position. Returns `None`
    /// if the order is not total.
    pub(super) fn place(&self) -> Option<Vec<usize>> {
        let before = self.selected_values();
        let at = |term: &Term| term.column.map_or(0, |column| before + column);
        self.is_total.then(|| self.terms.iter().map(at).collect())
    }

    /// Returns ` ORDER BY …`, or an empty string if there is no order.
    pub(super) fn clause(&self) -> String {
        let direction = if self.descending { " DESC" } else { "" };
        let terms: Vec<String> = self.terms.iter().map(|term| format!("{}{direction}", term.sql)).collect();
        if terms.is_empty() { String::new() } else { format!(" ORDER BY {}", terms.join(", ")) }
    }

    /// Returns the parts, in order, that hold the rows after a position, or all rows if `after` is `None`.
    pub(super) fn parts(&self, after: Option<&[Cell]>) -> Result<Vec<ScanPart>, EngineError> {
        let Some(after) = after else { return Ok(vec![ScanPart::default()]) };
        if !self.is_total || after.len() != self.terms.len() {
            let failure = SqlFailure::Engine("no row of this order has such a place".to_owned());
            return Err(EngineError::Sql { failure, statement: 1 });
        }
        let sign = if self.descending { '<' } else { '>' };
        let behind = |terms: &[Term]| {
            let names: Vec<&str> = terms.iter().map(|term| term.sql.as_str()).collect();
            format!("({}) {sign} ({})", names.join(", "), vec!["?"; terms.len()].join(", "))
        };
        let (true, Some((first, key)), Some((value, rest))) =
            (self.begins_beside_key, self.terms.split_first(), after.split_first())
        else {
            return Ok(vec![ScanPart::new(behind(&self.terms), after)]);
        };
        // Split into parts, because an index finds the key after a value only if the first term is fixed to one value.
        let first = &first.sql;
        Ok(match (value, self.descending) {
            (Cell::Null, false) => vec![
                ScanPart::new(format!("{first} IS NULL AND {}", behind(key)), rest),
                ScanPart::new(format!("{first} IS NOT NULL"), &[]),
            ],
            (Cell::Null, true) => vec![ScanPart::new(format!("{first} IS NULL AND {}", behind(key)), rest)],
            (value, descending) => {
                let mut parts = vec![
                    ScanPart::new(format!("{first} = ? AND {}", behind(key)), after),
                    ScanPart::new(format!("{first} {sign} ?"), std::slice::from_ref(value)),
                ];
                if descending {
                    parts.push(ScanPart::new(format!("{first} IS NULL"), &[]));
                }
                parts
            }
        })
    }
}
