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
    ("null", "is NULL", Test::IsNull),
    ("some", "is not NULL", Test::IsNotNull),
];

/// Maximum number of filters.
pub(crate) const MOST_TESTS: usize = 10;

/// Filters, order and page of a table view.
#[derive(Debug, Clone, Default)]
pub(crate) struct Looking {
    /// The filters.
    pub(crate) tests: Vec<RowTest>,
    /// The column that sorts the rows.
    pub(crate) sort: Option<String>,
    pub(crate) descending: bool,
    /// The page as the URL encodes it. Empty for the first page.
    pub(crate) page: String,
}

impl Looking {
    /// Parses the query: `column`, `test` and `value`, once per filter; `sort`, `desc`, `page`. Invalid filters are ignored.
    pub(crate) fn of(visit: &PageContext) -> Self {
        let (columns, words, values) =
            (visit.parameters("column"), visit.parameters("test"), visit.parameters("value"));
        let tests =
            columns.into_iter().enumerate().filter(|(_, column)| !column.is_empty()).filter_map(|(at, column)| {
                let word = words.get(at).map_or("eq", String::as_str);
                let (_, _, test) = TESTS.iter().find(|(name, _, _)| *name == word)?;
                Some(RowTest { column, test: *test, value: values.get(at).cloned().unwrap_or_default() })
            });
        Self {
            tests: tests.take(MOST_TESTS).collect(),
            sort: visit.parameter("sort"),
            descending: visit.parameter("desc").is_some(),
            page: visit.parameter("page").unwrap_or_default(),
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
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
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
            tests: self.tests.clone(),
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

#[cfg(test)]
mod tests {
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
    }
}
