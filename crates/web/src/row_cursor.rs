//! The position of a page within the rows of a table, as its URL encodes it.
//!
//! A page starts after a row, which the engine finds by an index. The last page of a large table therefore costs as much as the
//! first. Rows of views have no such key, so their pages are found by counting.

use branchyard_domain::entities::{Cell, TableSchema};
use branchyard_domain::ports::Selected;
use branchyard_domain::values::{CommitHash, DatabaseId};
use branchyard_http_common::{AppState, KeyCells, bound, open_token, token};
use serde::{Deserialize, Serialize};

use crate::table_query::{self, Looking};

/// The number of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Total {
    /// The exact number.
    Counted(u64),
    /// Counting would take too long.
    Many,
}

/// The position of a page.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RowCursor {
    /// The row before the page, in reading direction.
    after: Option<KeyCells>,
    /// Whether the rows are read backwards.
    pub(crate) backwards: bool,
    /// Rows between `after` and the page.
    pub(crate) skip: u64,
    /// Whether `passed` counts from the end.
    from_end: bool,
    /// Rows between the page and the start or the end of the table.
    passed: u64,
    /// The commit at which the rows were counted, and their number.
    counted: Option<(String, Total)>,
}

/// The position of a page, and its neighbors.
pub(crate) struct Beside {
    /// The previous page. The first page is `RowCursor::default()`.
    pub(crate) previous: Option<RowCursor>,
    /// The next page.
    pub(crate) next: Option<RowCursor>,
    /// The last page, unless this is the last one.
    pub(crate) last: Option<RowCursor>,
    /// Whether there is a page before this one.
    pub(crate) has_first: bool,
    /// The number of the first row, starting at 1, if it is known.
    pub(crate) number: Option<u64>,
}

/// Returns the context that a sealed position is bound to.
fn binding(database: DatabaseId, schema: &TableSchema, looking: &Looking) -> String {
    let mut parts = vec!["rows page".to_owned(), database.to_string(), schema.name.clone()];
    parts.push(looking.sort.clone().unwrap_or_default());
    parts.push(looking.descending.to_string());
    parts.push(schema.primary_key.join("\0"));
    for test in &looking.tests {
        parts.extend([test.column.clone(), table_query::word(test.test).to_owned(), test.value.clone()]);
    }
    bound(&parts.iter().map(String::as_str).collect::<Vec<_>>())
}

impl RowCursor {
    /// Parses the position in a URL, a token or a page number, for pages of `page_rows` rows. Anything else means the first page.
    pub(crate) fn asked(
        state: &AppState,
        database: DatabaseId,
        schema: &TableSchema,
        looking: &Looking,
        page_rows: u64,
    ) -> Self {
        match looking.page.parse::<u64>() {
            // No engine counts further than 2⁶³.
            Ok(number) => {
                Self::counted(number.saturating_sub(1).saturating_mul(page_rows).min(i64::MAX.unsigned_abs()))
            }
            Err(_) => open_token(&state.keys, &binding(database, schema, looking), &looking.page).unwrap_or_default(),
        }
    }

    /// Returns the position after this many rows.
    fn counted(rows: u64) -> Self {
        Self { skip: rows, passed: rows, ..Self::default() }
    }

    fn end() -> Self {
        Self { backwards: true, from_end: true, ..Self::default() }
    }

    /// Encodes the position for a URL, for pages of `page_rows` rows. Empty for the first page.
    pub(crate) fn text(
        &self,
        state: &AppState,
        database: DatabaseId,
        schema: &TableSchema,
        looking: &Looking,
        page_rows: u64,
    ) -> String {
        match (&self.after, self.backwards, self.skip) {
            (None, false, 0) => String::new(),
            (None, false, skip) if skip % page_rows == 0 => (skip / page_rows + 1).to_string(),
            _ => token(state, &binding(database, schema, looking), self),
        }
    }

    /// Returns the key of the row before the page.
    pub(crate) fn cells(&self) -> Option<Vec<Cell>> {
        self.after.as_ref().and_then(KeyCells::cells)
    }

    /// Returns `true` for the first page.
    pub(crate) fn is_first(&self) -> bool {
        self.after.is_none() && !self.backwards && self.skip == 0
    }

    /// Returns the number of rows at this commit, if an earlier page counted them.
    pub(crate) fn total(&self, at: &CommitHash) -> Option<Total> {
        self.counted.as_ref().filter(|(commit, _)| commit == at.as_str()).map(|(_, total)| *total)
    }

    /// Returns the position of a single row: the row with this index, starting at 0, among the `rows` rows of this page.
    pub(crate) fn row(&self, number: u64, rows: u64) -> Self {
        let read_before = if self.backwards { rows.saturating_sub(number + 1) } else { number };
        Self { skip: self.skip.saturating_add(read_before), counted: None, ..self.clone() }
    }

    /// Computes the neighbors of a page with `rows` of at most `page_rows` rows, whose first and last keys are `selected`.
    pub(crate) fn beside(
        &self,
        (rows, page_rows): (u64, u64),
        selected: &Selected,
        (at, total): (&CommitHash, Total),
    ) -> Beside {
        let counted = Some((at.to_string(), total));
        let (first, last) =
            if self.backwards { (&selected.last, &selected.first) } else { (&selected.first, &selected.last) };
        let key = |place: &Option<Vec<Cell>>| place.as_ref().and_then(|place| KeyCells::of(place.iter()));
        // Without a key, or with one too long for a URL, rows are counted from the same end of the table as before.
        let to = |place: Option<KeyCells>, backwards: bool, passed: u64| match place {
            Some(after) => {
                let from_end = self.from_end;
                Self { after: Some(after), backwards, skip: 0, from_end, passed, counted: counted.clone() }
            }
            None => {
                let (backwards, from_end) = (self.from_end, self.from_end);
                Self { backwards, from_end, counted: counted.clone(), ..Self::counted(passed) }
            }
        };
        let is_start = self.backwards && !selected.more && !self.from_end;
        let passed = if is_start { 0 } else { self.passed };
        let has_previous = if self.backwards { selected.more } else { self.after.is_some() || passed > 0 };
        let has_next = if self.backwards { !self.from_end || passed > 0 } else { selected.more };
        let previous = match (self.from_end, passed) {
            (false, passed) if passed <= page_rows => Self::default(),
            (false, passed) => to(key(first), true, passed - page_rows),
            (true, passed) => to(key(first), true, passed.saturating_add(rows)),
        };
        let end = Self { counted: counted.clone(), ..Self::end() };
        let next = match (self.from_end, passed) {
            (false, passed) => to(key(last), false, passed.saturating_add(rows)),
            (true, passed) if passed <= page_rows => end.clone(),
            (true, passed) => to(key(last), false, passed - page_rows),
        };
        let is_exact = self.counted.as_ref().is_none_or(|(commit, _)| commit == at.as_str());
        let number = match (self.from_end, total) {
            (false, _) => Some(passed.saturating_add(1)),
            (true, Total::Counted(total)) => total.checked_sub(passed + rows).map(|before| before + 1),
            (true, Total::Many) => None,
        };
        Beside {
            previous: has_previous.then_some(previous),
            next: has_next.then_some(next),
            last: (has_next && selected.first.is_some()).then_some(end),
            has_first: has_previous,
            number: number.filter(|_| is_exact),
        }
    }
}

#[cfg(test)]
mod tests {
    use branchyard_domain::entities::Cell;
    use branchyard_domain::ports::Selected;
    use branchyard_domain::values::CommitHash;

    use super::{RowCursor, Total};

    /// Reads a page of three rows from a table of `0..rows`. The keys of some rows are too long for a URL.
    fn page(place: &RowCursor, rows: i64) -> (Vec<i64>, Selected) {
        let cell = |n: i64| if n % 4 == 3 { Cell::Text(format!("{n:05000}").into_bytes()) } else { Cell::Integer(n) };
        let behind = place.cells().map(|cells| match cells[0] {
            Cell::Integer(n) => n,
            _ => panic!("a long place was sealed"),
        });
        let skip = i64::try_from(place.skip).unwrap();
        let all: Vec<i64> = if place.backwards {
            (0..behind.unwrap_or(rows)).rev().collect()
        } else {
            (behind.map_or(0, |n| n + 1)..rows).collect()
        };
        let rest: Vec<i64> = all.into_iter().skip(usize::try_from(skip).unwrap()).collect();
        let mut shown: Vec<i64> = rest.iter().copied().take(3).collect();
        let place_of = |n: Option<&i64>| n.map(|n| vec![cell(*n)]);
        let selected = Selected { first: place_of(shown.first()), last: place_of(shown.last()), more: rest.len() > 3 };
        if place.backwards {
            shown.reverse();
        }
        (shown, selected)
    }

    #[test]
    fn pages_follow_each_other_forwards_and_back_wherever_one_begins() {
        let at = CommitHash::parse("0123456789abcdef0123456789abcdef01234567").unwrap();
        for rows in 0..14 {
            for total in [Total::Counted(u64::try_from(rows).unwrap()), Total::Many] {
                for (begin, forwards) in [(RowCursor::default(), true), (RowCursor::end(), false)] {
                    let (mut place, mut walked) = (begin, Vec::new());
                    loop {
                        let (shown, selected) = page(&place, rows);
                        let count = u64::try_from(shown.len()).unwrap();
                        let beside = place.beside((count, 3), &selected, (&at, total));
                        if let (Some(number), Some(first)) = (beside.number, shown.first()) {
                            assert_eq!(number, u64::try_from(first + 1).unwrap());
                        }
                        assert_eq!(beside.has_first, shown.first().is_some_and(|first| *first > 0), "{place:?}");
                        assert_eq!(
                            beside.next.is_some(),
                            shown.last().is_some_and(|last| last + 1 < rows),
                            "{place:?}"
                        );
                        for (number, row) in (0..).zip(&shown) {
                            let alone = place.row(number, count);
                            let read = page(&alone, rows).0;
                            assert_eq!(if alone.backwards { read.last() } else { read.first() }, Some(row));
                        }
                        // Every neighbor leads back to this page.
                        if let Some(previous) = &beside.previous {
                            assert!(page(previous, rows).0.contains(&(shown[0] - 1)), "{shown:?}, {previous:?}");
                        }
                        if let Some(next) = &beside.next {
                            assert!(page(next, rows).0.contains(&(shown[shown.len() - 1] + 1)), "{shown:?}, {next:?}");
                        }
                        if forwards {
                            walked.extend(shown)
                        } else {
                            walked.splice(0..0, shown);
                        }
                        match if forwards { beside.next } else { beside.previous } {
                            Some(next) => place = next,
                            None => break,
                        }
                    }
                    assert_eq!(walked, (0..rows).collect::<Vec<_>>(), "{rows} rows, forwards: {forwards}");
                }
            }
        }
    }
}
