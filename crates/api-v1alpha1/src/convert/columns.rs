use branchyard_domain::ports::Column;

use crate::wire;

/// Converts a column of a result. Its type gets the name that clients of a MySQL dialect expect. `kind` is the storage class of the
/// first value, for columns without a declared type (v1alpha1 §4.3).
pub(crate) fn column(column: Column, kind: Option<&'static str>) -> wire::Column {
    let Column { name, declared_type, is_primary_key: _, source_table: _ } = column;
    let declared = declared_type.filter(|text| !text.is_empty());
    let declared = declared.unwrap_or_else(|| kind.unwrap_or("TEXT").to_owned()).to_lowercase();
    let kind = match declared.as_str() {
        "integer" => "bigint".to_owned(),
        "real" => "double".to_owned(),
        "text" => "longtext".to_owned(),
        "blob" => "longblob".to_owned(),
        _ => declared,
    };
    wire::Column { name, kind }
}

#[cfg(test)]
mod tests {
    use branchyard_domain::ports::Column;

    #[test]
    fn types_are_spelled_as_clients_know_them() {
        let kind = |declared: Option<&str>, class| {
            let declared_type = declared.map(str::to_owned);
            let named = Column { name: "a".into(), declared_type, is_primary_key: false, source_table: String::new() };
            super::column(named, class).kind
        };
        for (declared, class, expected) in [
            (Some("INTEGER"), None, "bigint"),
            (Some("REAL"), None, "double"),
            (Some("TEXT"), Some("INTEGER"), "longtext"),
            (Some("BLOB"), None, "longblob"),
            (Some("VARCHAR(64)"), None, "varchar(64)"),
            (Some("DATE"), Some("TEXT"), "date"),
            (None, Some("REAL"), "double"),
            (Some(""), Some("BLOB"), "longblob"),
            (None, None, "longtext"),
        ] {
            assert_eq!(kind(declared, class), expected, "{declared:?} {class:?}");
        }
    }
}
