//! JSON mirrors of decisions about rows in conflict.

use branchyard_domain::entities::{Cell, ResolvedRow, RowResolution};
use data_encoding::BASE64;
use serde::{Deserialize, Serialize};

use super::{SideV1, WORK};
use crate::convert::Read;
use crate::error::Unreadable;

#[derive(Serialize, Deserialize)]
pub(super) struct RowResolutionV1 {
    table: String,
    primary_key: Vec<(String, CellV1)>,
    becomes: ResolvedRowV1,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ResolvedRowV1 {
    Of(SideV1),
    With(Vec<(String, CellV1)>),
}

/// A value. Bytes are base64.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CellV1 {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Bytes(String),
}

impl From<&RowResolution> for RowResolutionV1 {
    fn from(resolution: &RowResolution) -> Self {
        let RowResolution { table, primary_key, becomes } = resolution;
        Self {
            table: table.clone(),
            primary_key: cells(primary_key),
            becomes: match becomes {
                ResolvedRow::Of(side) => ResolvedRowV1::Of((*side).into()),
                ResolvedRow::With(values) => ResolvedRowV1::With(cells(values)),
            },
        }
    }
}

impl RowResolutionV1 {
    pub(super) fn resolution(self) -> Read<RowResolution> {
        Ok(RowResolution {
            table: self.table,
            primary_key: read_cells(self.primary_key)?,
            becomes: match self.becomes {
                ResolvedRowV1::Of(side) => ResolvedRow::Of(side.into()),
                ResolvedRowV1::With(values) => ResolvedRow::With(read_cells(values)?),
            },
        })
    }
}

fn cells(cells: &[(String, Cell)]) -> Vec<(String, CellV1)> {
    let cell = |cell: &Cell| match cell {
        Cell::Null => CellV1::Null,
        Cell::Integer(number) => CellV1::Integer(*number),
        Cell::Real(number) => CellV1::Real(*number),
        Cell::Text(text) => CellV1::Text(String::from_utf8_lossy(text).into_owned()),
        Cell::Blob(bytes) => CellV1::Bytes(BASE64.encode(bytes)),
    };
    cells.iter().map(|(column, value)| (column.clone(), cell(value))).collect()
}

fn read_cells(cells: Vec<(String, CellV1)>) -> Read<Vec<(String, Cell)>> {
    let cell = |cell: CellV1| {
        Ok(match cell {
            CellV1::Null => Cell::Null,
            CellV1::Integer(number) => Cell::Integer(number),
            CellV1::Real(number) => Cell::Real(number),
            CellV1::Text(text) => Cell::Text(text.into_bytes()),
            CellV1::Bytes(text) => {
                let unreadable =
                    |error: data_encoding::DecodeError| Unreadable { column: WORK, why: error.to_string() };
                Cell::Blob(BASE64.decode(text.as_bytes()).map_err(unreadable)?)
            }
        })
    };
    cells.into_iter().map(|(column, value)| Ok((column, cell(value)?))).collect()
}

#[cfg(test)]
mod tests {
    use branchyard_domain::entities::Side;

    use super::*;

    #[test]
    fn decisions_are_read_as_they_were_stored() {
        let cells = |cell: Cell| vec![("a".to_owned(), cell)];
        for (key, value) in [
            (Cell::Text("ü".into()), Cell::Null),
            (Cell::Integer(i64::MIN), Cell::Real(0.5)),
            (Cell::Blob(vec![0, 255]), Cell::Text(Vec::new())),
        ] {
            for becomes in [ResolvedRow::Of(Side::Theirs), ResolvedRow::With(cells(value.clone()))] {
                let decision = RowResolution { table: "t".to_owned(), primary_key: cells(key.clone()), becomes };
                let text = serde_json::to_string(&RowResolutionV1::from(&decision)).unwrap();
                let read: RowResolutionV1 = serde_json::from_str(&text).unwrap();
                assert_eq!(read.resolution().unwrap(), decision);
            }
        }
        let bad = r#"{"table":"t","primary_key":[["a",{"bytes":"?"}]],"becomes":{"of":"ours"}}"#;
        assert!(serde_json::from_str::<RowResolutionV1>(bad).unwrap().resolution().is_err());
    }
}
