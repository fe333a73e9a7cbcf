//! Links from a row to its own page, to the rows it references, and to the rows that reference it.

use branchyard_domain::entities::{ForeignKey, TableSchema};

use crate::database::DatabaseFrame;
use crate::rows::CellView;
use crate::table_query::Looking;

/// The links of rows of one table.
pub(crate) struct Links<'a> {
    frame: &'a DatabaseFrame,
    schemas: &'a [TableSchema],
    schema: &'a TableSchema,
}

impl<'a> Links<'a> {
    pub(crate) fn new(frame: &'a DatabaseFrame, schemas: &'a [TableSchema], schema: &'a TableSchema) -> Self {
        Self { frame, schemas, schema }
    }

    fn table(&self, name: &str) -> Option<&'a TableSchema> {
        self.schemas.iter().find(|table| table.name.eq_ignore_ascii_case(name))
    }

    /// Returns the values of these columns, or `None` if one of them cannot identify the row, such as a truncated value.
    fn values<'r>(&self, columns: &[String], row: &'r [CellView]) -> Option<Vec<&'r str>> {
        let value = |name: &String| {
            let at = self.schema.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name))?;
            row.get(at).filter(|cell| cell.is_findable()).map(|cell| cell.text.as_str())
        };
        columns.iter().map(value).collect()
    }

    /// Returns the columns of the primary key and their values, if they identify the row.
    pub(crate) fn key<'r>(&'r self, row: &'r [CellView]) -> Option<Vec<(&'r str, &'r str)>> {
        if self.schema.primary_key.is_empty() {
            return None;
        }
        let values = self.values(&self.schema.primary_key, row)?;
        Some(self.schema.primary_key.iter().map(String::as_str).zip(values).collect())
    }

    /// Returns the path of a row's page by its primary key.
    pub(crate) fn row(&self, row: &[CellView]) -> Option<String> {
        if self.schema.primary_key.is_empty() {
            return None;
        }
        let values = self.values(&self.schema.primary_key, row)?;
        Some(self.page_of(&self.schema.name, &self.schema.primary_key, &values))
    }

    /// Returns the path of the form that edits a row, by its primary key.
    pub(crate) fn edit(&self, row: &[CellView]) -> Option<String> {
        if self.schema.primary_key.is_empty() {
            return None;
        }
        let (columns, values) = (&self.schema.primary_key, self.values(&self.schema.primary_key, row)?);
        let pairs: Vec<(&str, &str)> = columns.iter().map(String::as_str).zip(values).collect();
        let path = format!("{}/edit", self.frame.table_path(&self.schema.name));
        Some(Looking::with(&pairs).address(&path, &self.frame.asked_ref))
    }

    fn page_of(&self, table: &str, columns: &[String], values: &[&str]) -> String {
        let pairs: Vec<(&str, &str)> = columns.iter().map(String::as_str).zip(values.iter().copied()).collect();
        Looking::with(&pairs).address(&format!("{}/row", self.frame.table_path(table)), &self.frame.asked_ref)
    }

    /// Returns, for each cell, the page of the row it references.
    pub(crate) fn targets(&self, row: &[CellView]) -> Vec<Option<String>> {
        let mut targets = vec![None; row.len()];
        for key in &self.schema.foreign_keys {
            let Some(target) = self.target(key, row) else { continue };
            for name in &key.columns {
                let at = self.schema.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name));
                if let Some(slot) = at.and_then(|at| targets.get_mut(at)) {
                    slot.get_or_insert_with(|| target.clone());
                }
            }
        }
        targets
    }

    fn target(&self, key: &ForeignKey, row: &[CellView]) -> Option<String> {
        let table = self.table(&key.references_table)?;
        let columns = referred(key, table);
        let values = self.values(&key.columns, row)?;
        (columns.len() == values.len()).then(|| self.page_of(&table.name, columns, &values))
    }

    /// Returns the label and path of each list of rows in other tables that reference this row.
    pub(crate) fn referring(&self, row: &[CellView]) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for table in self.schemas {
            for key in
                table.foreign_keys.iter().filter(|key| key.references_table.eq_ignore_ascii_case(&self.schema.name))
            {
                let Some(values) = self.values(referred(key, self.schema), row) else { continue };
                if values.len() != key.columns.len() {
                    continue;
                }
                let pairs: Vec<(&str, &str)> = key.columns.iter().map(String::as_str).zip(values).collect();
                let href = Looking::with(&pairs).address(&self.frame.table_path(&table.name), &self.frame.asked_ref);
                found.push((format!("{} by {}", table.name, key.columns.join(", ")), href));
            }
        }
        found
    }
}

/// Returns the columns that a foreign key references.
pub(crate) fn referred<'k>(key: &'k ForeignKey, table: &'k TableSchema) -> &'k [String] {
    if key.references_columns.is_empty() { &table.primary_key } else { &key.references_columns }
}
