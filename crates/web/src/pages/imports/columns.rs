//! The columns of a previewed file: the types to choose from, and what each would do with the values.

use branchyard_domain::entities::ImportType;
use branchyard_domain::ports::{ColumnSpelling, InferredColumn, Respelled};

use crate::format;

/// The types: values in forms and numeric effects.
const TYPES: [(&str, ImportType); 5] = [
    ("INTEGER", ImportType::Integer),
    ("REAL", ImportType::Real),
    ("NUMERIC", ImportType::Numeric),
    ("TEXT", ImportType::Text),
    ("BLOB", ImportType::Blob),
];

/// Returns the type with this name, if it is one.
pub(super) fn type_named(name: &str) -> Option<ImportType> {
    TYPES.iter().find(|(known, _)| *known == name).map(|(_, one)| *one)
}

/// A column of the file.
pub(super) struct PreviewColumn {
    pub(super) name: String,
    pub(super) is_key: bool,
    pub(super) types: Vec<TypeOption>,
    pub(super) effects: Vec<TypeEffect>,
}

/// A type to choose.
pub(super) struct TypeOption {
    pub(super) value: &'static str,
    pub(super) text: String,
    pub(super) is_chosen: bool,
}

/// What a type would do with the values of a column.
pub(super) struct TypeEffect {
    pub(super) value: &'static str,
    pub(super) text: String,
    /// The first changed values with their new spelling.
    pub(super) examples: Vec<(String, String)>,
    pub(super) is_chosen: bool,
}

impl PreviewColumn {
    /// Creates a column. `chosen` is the submitted type, if there is one.
    pub(super) fn new(
        column: InferredColumn,
        spelling: Option<&ColumnSpelling>,
        is_key: bool,
        chosen: Option<&str>,
    ) -> Self {
        let chosen = chosen.map_or_else(|| proposed(&column.declared_type, spelling), str::to_owned);
        // A column of mixed values has no type, unless the user chooses one.
        let untyped = column.declared_type.is_empty().then(|| TypeOption {
            value: "",
            text: "any type".to_owned(),
            is_chosen: chosen.is_empty(),
        });
        let option = |(value, column_type): (&'static str, ImportType)| TypeOption {
            value,
            text: match respelled(spelling, column_type).and_then(summary) {
                Some(effect) => format!("{value}: {effect}"),
                None => value.to_owned(),
            },
            is_chosen: chosen == value,
        };
        let effect = |(value, column_type): (&'static str, ImportType)| {
            let respelled = respelled(spelling, column_type)?;
            let text = summary(respelled)?;
            Some(TypeEffect { value, text, examples: respelled.first.clone(), is_chosen: chosen == value })
        };
        Self {
            types: untyped.into_iter().chain(TYPES.into_iter().map(option)).collect(),
            effects: TYPES.into_iter().filter_map(effect).collect(),
            name: column.name,
            is_key,
        }
    }
}

/// Returns the type that is proposed for a column: that of a new table, but text if a value begins with `+`, as phone numbers do, and
/// `NUMERIC` if that changes fewer values.
pub(super) fn proposed(inferred: &str, spelling: Option<&ColumnSpelling>) -> String {
    let proposed = match spelling {
        Some(spelling) if spelling.has_plus => "TEXT",
        Some(spelling) if inferred == "REAL" && spelling.numeric.changed < spelling.real.changed => "NUMERIC",
        _ => inferred,
    };
    proposed.to_owned()
}

/// Returns `true` if a column of this type would spell values of the file differently.
pub(super) fn changes_values(spelling: Option<&ColumnSpelling>, type_name: &str) -> bool {
    let respelled = type_named(type_name).and_then(|column_type| respelled(spelling, column_type));
    respelled.is_some_and(|respelled| respelled.changed > 0)
}

fn respelled(spelling: Option<&ColumnSpelling>, column_type: ImportType) -> Option<&Respelled> {
    let spelling = spelling?;
    match column_type {
        ImportType::Integer => Some(&spelling.integer),
        ImportType::Real => Some(&spelling.real),
        ImportType::Numeric => Some(&spelling.numeric),
        ImportType::Text | ImportType::Blob => None,
    }
}

/// Describes what a type would do, if it would do anything.
fn summary(respelled: &Respelled) -> Option<String> {
    if respelled.unfit > 0 {
        let verb = if respelled.unfit == 1 { "doesn't" } else { "don't" };
        return Some(format!("{} {verb} fit", format::counted(respelled.unfit, "value", "values")));
    }
    (respelled.changed > 0).then(|| format!("changes {}", format::counted(respelled.changed, "value", "values")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(declared_type: &str, spelling: &ColumnSpelling) -> PreviewColumn {
        let column = InferredColumn { name: "c".to_owned(), declared_type: declared_type.to_owned() };
        PreviewColumn::new(column, Some(spelling), false, None)
    }

    fn chosen(column: &PreviewColumn) -> &'static str {
        column.types.iter().find(|option| option.is_chosen).map_or("none", |option| option.value)
    }

    fn changing(changed: u64) -> Respelled {
        Respelled { changed, ..Respelled::default() }
    }

    #[test]
    fn types_are_proposed() {
        let plain = ColumnSpelling::default();
        assert_eq!(chosen(&column("INTEGER", &plain)), "INTEGER");
        assert_eq!(chosen(&column("", &plain)), "");
        let phones = ColumnSpelling { has_plus: true, integer: changing(2), ..ColumnSpelling::default() };
        assert_eq!(chosen(&column("INTEGER", &phones)), "TEXT");
        let mixed = ColumnSpelling { real: changing(1), ..ColumnSpelling::default() };
        assert_eq!(chosen(&column("REAL", &mixed)), "NUMERIC");
        let versions = ColumnSpelling { real: changing(2), numeric: changing(2), ..ColumnSpelling::default() };
        assert_eq!(chosen(&column("REAL", &versions)), "REAL");
    }

    #[test]
    fn effects_are_described() {
        let first = vec![("1.10".to_owned(), "1.1".to_owned())];
        let real = Respelled { changed: 1, unfit: 0, first };
        let integer = Respelled { unfit: 2, ..Respelled::default() };
        let column = column("REAL", &ColumnSpelling { real, integer, ..ColumnSpelling::default() });
        let options: Vec<&str> = column.types.iter().map(|option| option.text.as_str()).collect();
        assert_eq!(options, ["INTEGER: 2 values don't fit", "REAL: changes 1 value", "NUMERIC", "TEXT", "BLOB"]);
        assert_eq!(column.effects.len(), 2);
        assert_eq!(column.effects[1].examples, [("1.10".to_owned(), "1.1".to_owned())]);
    }
}
