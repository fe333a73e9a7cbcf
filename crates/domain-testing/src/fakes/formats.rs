//! A minimal reader of comma-separated values.

use std::io::{BufRead as _, BufReader};

use branchyard_domain::entities::{Cell, FileType, RowProblem};
use branchyard_domain::ports::{
    FormatError, FormatInput, Formats, ImportFile, InferredColumn, RowSource, TargetColumn,
};

/// Maximum number of reported problems.
const PROBLEMS: usize = 100;

/// A reader of `csv` without quoting: fields end at every comma, the first line holds the column names, and an empty
/// field is NULL.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlainFormats;

impl Formats for PlainFormats {
    fn supports(&self, file_type: FileType) -> bool {
        file_type == FileType::Csv
    }

    fn scan<'a>(&self, input: FormatInput<'a>) -> Result<Box<dyn ImportFile + 'a>, FormatError> {
        if !self.supports(input.file_type) {
            return Err(FormatError::File("only csv is read here".to_owned()));
        }
        let lines = BufReader::new((input.open)().map_err(FormatError::Io)?).lines();
        let lines = lines.collect::<Result<Vec<String>, _>>().map_err(FormatError::Io)?;
        let Some((header, records)) = lines.split_first().filter(|(header, _)| !header.is_empty()) else {
            return Err(FormatError::File("the file has no header".to_owned()));
        };
        let records: Vec<Vec<String>> =
            records.iter().map(|line| line.split(',').map(str::to_owned).collect()).collect();
        let infer = |(at, name): (usize, &str)| {
            let mut fields = records.iter().filter_map(|record| record.get(at)).filter(|field| !field.is_empty());
            let declared_type = if fields.clone().all(|field| field.parse::<i64>().is_ok()) {
                "INTEGER"
            } else if fields.all(|field| field.parse::<f64>().is_ok()) {
                "REAL"
            } else {
                "TEXT"
            };
            InferredColumn { name: name.to_owned(), declared_type: declared_type.to_owned() }
        };
        let columns = header.split(',').enumerate().map(infer).collect();
        Ok(Box::new(PlainFile { columns, records }))
    }
}

struct PlainFile {
    columns: Vec<InferredColumn>,
    records: Vec<Vec<String>>,
}

impl ImportFile for PlainFile {
    fn columns(&self) -> &[InferredColumn] {
        &self.columns
    }

    fn rows(&self, targets: &[TargetColumn]) -> Result<Box<dyn RowSource + '_>, FormatError> {
        Ok(Box::new(PlainRows { file: self, targets: targets.to_vec(), at: 0 }))
    }
}

struct PlainRows<'a> {
    file: &'a PlainFile,
    targets: Vec<TargetColumn>,
    at: usize,
}

impl PlainRows<'_> {
    fn convert(&self, record: &[String], line: u64, row: &mut Vec<Cell>) -> Result<(), RowProblem> {
        row.clear();
        if record.len() != self.targets.len() {
            let detail = format!("has {} fields, the header has {}", record.len(), self.targets.len());
            return Err(RowProblem { line, column: None, detail });
        }
        for ((field, target), column) in record.iter().zip(&self.targets).zip(&self.file.columns) {
            let wrong = |what: &str| RowProblem {
                line,
                column: Some(column.name.clone()),
                detail: format!("'{field}' is not {what}"),
            };
            row.push(match target.declared().to_ascii_uppercase().as_str() {
                _ if field.is_empty() => Cell::Null,
                "INTEGER" => Cell::Integer(field.parse().map_err(|_| wrong("an integer"))?),
                "REAL" => Cell::Real(field.parse().map_err(|_| wrong("a number"))?),
                _ => Cell::Text(field.clone().into_bytes()),
            });
        }
        Ok(())
    }
}

impl RowSource for PlainRows<'_> {
    fn next(&mut self, row: &mut Vec<Cell>) -> Result<Option<u64>, FormatError> {
        let mut problems = Vec::new();
        while let Some(record) = self.file.records.get(self.at) {
            self.at += 1;
            let line = u64::try_from(self.at + 1).unwrap_or(u64::MAX);
            match self.convert(record, line, row) {
                Ok(()) if problems.is_empty() => return Ok(Some(line)),
                Ok(()) => {}
                Err(problem) if problems.len() < PROBLEMS => problems.push(problem),
                Err(_) => {}
            }
        }
        if problems.is_empty() { Ok(None) } else { Err(FormatError::Rows(problems)) }
    }
}
