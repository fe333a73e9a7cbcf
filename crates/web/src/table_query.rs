//! Filters, order and page of a table view, as its URL encodes them.

use branchyard_domain::ports::{RowOrder, RowTest, Test};

use crate::page_context::PageContext;
use crate::paths;

/// The filter operators: names in URLs, labels, and tests.
pub(crate) const TESTS: &[(&str, &str, Test)] = &[
    ("eq", "=", Test::Equals),
    ("ne", "≠", Test::Differs),
    ("has", "contains", Test::Contains),
    ("lt", "<", Test::Less),
    ("gt", ">", Test::More),
    ("le", "≤", Test::AtMost),
    ("ge", "≥", Test::AtLeast),
    ("starts", "starts with", Test::StartsWith),
    ("any", "is one of", Test::OneOf),
    ("null", "is NULL", Test::IsNull),
    ("some", "is not NULL", Test::IsNotNull),
];

/// Maximum number of filters, without those for one of several values.
pub(crate) const MOST_TESTS: usize = 10;
/// Maximum number of filters for one of several values.
pub(crate) const MOST_VALUES: usize = 50;

/// Rows per page that a viewer can choose. The first one is used unless another one is chosen.
pub(crate) const PAGE_SIZES: [u64; 3] = [50, 100, 500];
/// Maximum number of cells on a page with more rows than usual.
const MOST_CELLS: u64 = 50_000;

/// Filters, order and page of a table view.
#[derive(Debug, Clone)]
pub(crate) struct Looking {
    /// The filters.
    pub(crate) tests: Vec<RowTest>,
    /// The column that sorts the rows.
    pub(crate) sort: Option<String>,
    pub(crate) descending: bool,
    /// The page as the URL encodes it. Empty for the first page.
    pub(crate) page: String,
    /// Rows per page: one of [`PAGE_SIZES`].
    pub(crate) rows: u64,
}

impl Default for Looking {
    fn default() -> Self {
        Self { tests: Vec::new(), sort: None, descending: false, page: String::new(), rows: PAGE_SIZES[0] }
    }
}

impl Looking {
    /// Parses the query: `column`, `test` and `value`, once per filter; `in` with the column of the values `is`, as check boxes send
    /// them; `sort`, `desc`, `rows`, `page`. Invalid filters are ignored.
    pub(crate) fn of(visit: &PageContext) -> Self {
        let (columns, words, values) =
            (visit.parameters("column"), visit.parameters("test"), visit.parameters("value"));
        let tests =
            columns.into_iter().enumerate().filter(|(_, column)| !column.is_empty()).filter_map(|(at, column)| {
                let word = words.get(at).map_or("eq", String::as_str);
                let (_, _, test) = TESTS.iter().find(|(name, _, _)| *name == word)?;
                let value = values.get(at).cloned().unwrap_or_default();
                // The bounds of a range may be left empty.
                let is_open = value.is_empty() && matches!(test, Test::AtMost | Test::AtLeast);
                (!is_open).then_some(RowTest { column, test: *test, value })
            });
        let (one_of, mut tests): (Vec<_>, Vec<_>) = tests.partition(|test| test.test == Test::OneOf);
        tests.truncate(MOST_TESTS);
        let ticked = visit.parameter("in").map(|column| {
            let test = |value| RowTest { column: column.clone(), test: Test::OneOf, value };
            visit.parameters("is").into_iter().map(test).collect::<Vec<_>>()
        });
        tests.extend(one_of.into_iter().chain(ticked.into_iter().flatten()).take(MOST_VALUES));
        let rows = visit.parameter("rows").and_then(|text| text.parse().ok());
        Self {
            tests,
            sort: visit.parameter("sort"),
            descending: visit.parameter("desc").is_some(),
            page: visit.parameter("page").unwrap_or_default(),
            rows: rows.filter(|rows| PAGE_SIZES.contains(rows)).unwrap_or(PAGE_SIZES[0]),
        }
    }

    /// Selects the rows with these values in these columns.
    pub(crate) fn with(pairs: &[(&str, &str)]) -> Self {
        let test = |(column, value): &(&str, &str)| RowTest {
            column: (*column).to_owned(),
            test: Test::Equals,
            value: (*value).to_owned(),
        };
        Self { tests: pairs.iter().map(test).collect(), ..Self::default() }
    }

    /// Returns the URL of this view at a path and a ref.
    pub(crate) fn address(&self, path: &str, asked_ref: &str) -> String {
        let mut address = paths::with_query(path, &[("ref", asked_ref)]);
        let mut sign = if asked_ref.is_empty() { '?' } else { '&' };
        let page = Some(("page".to_owned(), self.page.clone())).filter(|(_, page)| !page.is_empty());
        for (name, value) in self.pairs().into_iter().chain(page) {
            address.push(sign);
            address.push_str(&paths::parameter(&name, &value));
            sign = '&';
        }
        address
    }

    /// Returns the parameters of this view, without its page.
    pub(crate) fn pairs(&self) -> Vec<(String, String)> {
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for test in &self.tests {
            pairs.extend([("column", test.column.as_str()), ("test", word(test.test)), ("value", test.value.as_str())]);
        }
        pairs.extend(self.sort.as_deref().map(|sort| ("sort", sort)));
        if self.descending {
            pairs.push(("desc", "1"));
        }
        let rows = self.rows.to_string();
        if self.rows != PAGE_SIZES[0] {
            pairs.push(("rows", &rows));
        }
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// Returns the rows per page of a table with this many columns. Wide tables have fewer, so that a page can be opened.
    pub(crate) fn rows_for(&self, columns: usize) -> u64 {
        let fits = |rows: &u64| rows.saturating_mul(columns as u64) <= MOST_CELLS;
        PAGE_SIZES.into_iter().rev().filter(|rows| *rows <= self.rows).find(fits).unwrap_or(PAGE_SIZES[0])
    }

    /// Returns this view with another number of rows per page.
    pub(crate) fn of_rows(&self, rows: u64) -> Self {
        Self { rows, page: String::new(), ..self.clone() }
    }

    /// Returns this view with one more filter.
    pub(crate) fn and(&self, column: &str, test: Test, value: &str) -> Self {
        let mut tests = self.tests.clone();
        tests.push(RowTest { column: column.to_owned(), test, value: value.to_owned() });
        Self { tests, page: String::new(), ..self.clone() }
    }

    /// Returns this view without the filter at this position.
    pub(crate) fn without(&self, at: usize) -> Self {
        let mut tests = self.tests.clone();
        tests.remove(at);
        Self { tests, page: String::new(), ..self.clone() }
    }

    /// Returns this view without the filters for one of several values of a column.
    pub(crate) fn without_list(&self, column: &str) -> Self {
        let is_listed = |test: &&RowTest| test.test == Test::OneOf && test.column.eq_ignore_ascii_case(column);
        let tests = self.tests.iter().filter(|test| !is_listed(test)).cloned().collect();
        Self { tests, page: String::new(), ..self.clone() }
    }

    /// Returns this view without the filters of a column.
    pub(crate) fn without_column(&self, column: &str) -> Self {
        let tests = self.tests.iter().filter(|test| !test.column.eq_ignore_ascii_case(column)).cloned().collect();
        Self { tests, page: String::new(), ..self.clone() }
    }

    /// Returns the statement that selects the rows of this view. Filters that SQL text cannot express are left out.
    pub(crate) fn statement(&self, table: &str) -> String {
        let order = self.sort.as_deref().map(|column| RowOrder { column, descending: self.descending });
        let statement = RowTest::statement(table, &self.tests, order);
        statement.or_else(|| RowTest::statement(table, &[], order)).unwrap_or_default()
    }

    /// Returns this view sorted by a column: ascending first, then descending.
    pub(crate) fn sorted_by(&self, column: &str) -> Self {
        let is_sorted = self.sort.as_deref() == Some(column);
        Self {
            sort: Some(column.to_owned()),
            descending: is_sorted && !self.descending,
            page: String::new(),
            ..self.clone()
        }
    }

    /// Returns another page of this view.
    pub(crate) fn at_page(&self, page: String) -> Self {
        Self { page, ..self.clone() }
    }
}

/// Returns the name of a filter operator in URLs.
pub(crate) fn word(test: Test) -> &'static str {
    TESTS.iter().find(|(_, _, known)| *known == test).map_or("eq", |(word, _, _)| word)
}

/// Returns the label of a filter operator.
pub(crate) fn label(test: Test) -> &'static str {
    TESTS.iter().find(|(_, _, known)| *known == test).map_or("=", |(_, label, _)| label)
}

/// Returns `true` if the operator compares with a value.
pub(crate) fn has_value(test: Test) -> bool {
    !matches!(test, Test::IsNull | Test::IsNotNull)
}

#[cfg(test)]
mod tests {
    use branchyard_domain::ports::Test;

    use super::Looking;

    #[test]
    fn addresses_hold_everything() {
        let looking = Looking::with(&[("a b", "x&y"), ("c", "")]);
        let expected = "/t?ref=v1&column=a%20b&test=eq&value=x%26y&column=c&test=eq&value=";
        assert_eq!(looking.address("/t", "v1"), expected);
        let sorted = Looking::default().sorted_by("a");
        assert_eq!(sorted.address("/t", ""), "/t?sort=a");
        let again = sorted.sorted_by("a");
        assert_eq!(again.at_page("3".to_owned()).address("/t", ""), "/t?sort=a&desc=1&page=3");
        assert_eq!(again.sorted_by("a").address("/t", ""), "/t?sort=a");
        assert_eq!(again.of_rows(500).address("/t", ""), "/t?sort=a&desc=1&rows=500");
        let both = sorted.and("b", Test::OneOf, "1").and("c", Test::IsNull, "");
        assert_eq!(both.without(0).address("/t", ""), "/t?column=c&test=null&value=&sort=a");
        assert_eq!(both.without_column("C").tests.len(), 1);
    }

    #[test]
    fn wide_tables_have_fewer_rows_per_page() {
        let most = Looking::default().of_rows(500);
        assert_eq!([1, 100, 101, 500, 501, 2_000].map(|columns| most.rows_for(columns)), [500, 500, 100, 100, 50, 50]);
        assert_eq!(Looking::default().rows_for(1), 50);
    }
}
