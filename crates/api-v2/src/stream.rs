//! Complete results streamed as NDJSON or CSV, row by row (v2 §6.5).

use branchyard_domain::ports::{Column, RowSink, ValueRef};
use branchyard_http_common::{DownloadWriter, RowOut, csv_header, csv_row, storage_class, write_json_value};
use serde::Serialize;
use std::ops::ControlFlow;

use crate::convert::query_column;
use crate::wire;

/// The format of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamFormat {
    /// One JSON document with a limited number of rows and bytes.
    Json,
    /// `application/x-ndjson`: a line with the columns, one line per row, and a line with the status.
    Ndjson,
    /// `text/csv`, with a header line.
    Csv,
}

impl StreamFormat {
    /// Returns the first supported media type of an `Accept` header, regardless of quality values; JSON if there is none.
    pub(crate) fn accepted(header: Option<&str>) -> Self {
        let types = header.unwrap_or_default().split(',');
        let mut known = types.filter_map(|part| match part.split(';').next()?.trim().to_ascii_lowercase().as_str() {
            "application/json" | "application/*" | "*/*" => Some(Self::Json),
            "application/x-ndjson" => Some(Self::Ndjson),
            "text/csv" => Some(Self::Csv),
            _ => None,
        });
        known.next().unwrap_or(Self::Json)
    }

    /// Returns the media type.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Ndjson => "application/x-ndjson",
            Self::Csv => "text/csv",
        }
    }
}

/// The end of a streamed read. `Ok(true)` marks a deterministic result, which may be cached. An error holds the status and
/// message of the failure.
pub(crate) type StreamEnd = Result<bool, (wire::QueryStatus, String)>;

/// A [`RowSink`] that writes rows to a download.
pub(crate) struct StreamSink {
    format: StreamFormat,
    limit: Option<u64>,
    columns: Option<Vec<Column>>,
    pub(crate) rows: u64,
    pub(crate) writer: DownloadWriter<StreamEnd>,
}

#[derive(Serialize)]
struct StreamHead {
    columns: Vec<wire::QueryColumn>,
}

/// The last line of NDJSON.
#[derive(Serialize)]
struct StreamTrailer<'a> {
    status: wire::QueryStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    row_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

impl StreamSink {
    pub(crate) fn new(format: StreamFormat, limit: Option<u64>, writer: DownloadWriter<StreamEnd>) -> Self {
        Self { format, limit, columns: None, rows: 0, writer }
    }

    /// Writes the columns, once. The storage classes of the first row stand in for the types of columns without a declared
    /// type.
    fn write_head(&mut self, first: Option<&[ValueRef<'_>]>) {
        let Some(columns) = self.columns.take() else { return };
        let buffer = self.writer.buffer();
        if self.format == StreamFormat::Csv {
            csv_header(buffer, &columns);
        } else {
            let kind = |index: usize| first.and_then(|row| row.get(index)).and_then(|value| storage_class(*value));
            let columns = columns.into_iter().enumerate().map(|(index, column)| query_column(column, kind(index)));
            json(buffer, &StreamHead { columns: columns.collect() });
            buffer.push(b'\n');
        }
    }

    /// Writes the end of the result and returns the writer.
    pub(crate) fn finish(mut self, end: &StreamEnd) -> DownloadWriter<StreamEnd> {
        if end.is_ok() {
            self.write_head(None);
        }
        if self.format == StreamFormat::Ndjson {
            let last = match end {
                Ok(_) => {
                    StreamTrailer { status: wire::QueryStatus::Success, row_count: Some(self.rows), message: None }
                }
                Err((status, message)) => StreamTrailer { status: *status, row_count: None, message: Some(message) },
            };
            json(self.writer.buffer(), &last);
            self.writer.buffer().push(b'\n');
        }
        self.writer
    }
}

impl RowSink for StreamSink {
    fn columns(&mut self, columns: &[Column]) -> ControlFlow<()> {
        self.columns = Some(columns.to_vec());
        ControlFlow::Continue(())
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        self.write_head(Some(row));
        let taken = match self.format {
            StreamFormat::Csv => csv_row(&mut self.writer, row),
            StreamFormat::Json | StreamFormat::Ndjson => ndjson_row(&mut self.writer, row),
        };
        self.rows += 1;
        if !taken || self.limit == Some(self.rows) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn json(buffer: &mut Vec<u8>, value: &impl Serialize) {
    // Writing to a vector cannot fail.
    let _ = serde_json::to_writer(buffer, value);
}

fn ndjson_row(out: &mut impl RowOut, row: &[ValueRef<'_>]) -> bool {
    out.buffer().push(b'[');
    for (index, value) in row.iter().enumerate() {
        if index > 0 {
            out.buffer().push(b',');
        }
        if !write_json_value(out, *value) {
            return false;
        }
    }
    out.buffer().extend_from_slice(b"]\n");
    out.flush_if_due()
}

#[cfg(test)]
mod tests {
    use super::{StreamFormat, ndjson_row};
    use branchyard_domain::ports::ValueRef;

    #[test]
    fn the_type_named_first_wins() {
        let cases = [
            (None, StreamFormat::Json),
            (Some("text/html"), StreamFormat::Json),
            (Some("text/csv, application/x-ndjson"), StreamFormat::Csv),
            (Some("text/html, Application/X-NDJSON;q=0.5, */*"), StreamFormat::Ndjson),
            (Some("*/*, text/csv"), StreamFormat::Json),
            (Some("application/json, text/csv"), StreamFormat::Json),
        ];
        for (header, expected) in cases {
            assert_eq!(StreamFormat::accepted(header), expected, "{header:?}");
        }
    }

    #[test]
    fn values() {
        let row = [
            ValueRef::Null,
            ValueRef::Integer(-4),
            ValueRef::Real(2.0),
            ValueRef::Real(f64::INFINITY),
            ValueRef::Text(b"a\xff"),
            ValueRef::Text(b""),
            ValueRef::Text(b"a \"b\",\n"),
            ValueRef::Text(b" x"),
            ValueRef::Blob(b"ab"),
        ];
        let mut buffer = Vec::new();
        ndjson_row(&mut buffer, &row);
        let expected = "[null,-4,2.0,\"Inf\",\"a\u{fffd}\",\"\",\"a \\\"b\\\",\\n\",\" x\",\"YWI=\"]\n";
        assert_eq!(String::from_utf8(buffer).unwrap(), expected);
    }
}
