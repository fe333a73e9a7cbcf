use branchyard_domain::ports::Column;

use crate::wire;

/// Converts a column of a result. `kind` is the storage class of the column's first value and stands in for a missing declared
/// type.
pub(crate) fn query_column(column: Column, kind: Option<&'static str>) -> wire::QueryColumn {
    let Column { name, declared_type, is_primary_key, source_table } = column;
    let declared = declared_type.filter(|text| !text.is_empty()).map(|text| text.to_uppercase());
    wire::QueryColumn {
        name,
        kind: declared.unwrap_or_else(|| kind.unwrap_or("TEXT").to_owned()),
        is_primary_key,
        source_table,
    }
}
