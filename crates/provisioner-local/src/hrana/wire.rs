//! Requests in their wire form. Unknown fields are ignored.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::value::RawValue;

use super::values::HranaValue;

/// The body of a pipeline.
#[derive(Debug, Deserialize)]
pub(crate) struct Pipeline {
    pub(crate) requests: Vec<HranaRequest>,
}

/// The body of a cursor.
#[derive(Debug, Deserialize)]
pub(crate) struct Cursor {
    pub(crate) batch: HranaBatch,
}

/// A request of a pipeline.
#[derive(Debug)]
pub(crate) enum HranaRequest {
    Execute { stmt: Stmt },
    Batch { batch: HranaBatch },
    Sequence(SqlText),
    Describe(SqlText),
    StoreSql { sql_id: i32, sql: String },
    CloseSql { sql_id: i32 },
    GetAutocommit,
    Close,
}

/// Written by hand, because the derived implementation of a tagged enum buffers numbers and loses their last digit.
impl<'de> Deserialize<'de> for HranaRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct TypeTag {
            r#type: String,
        }
        #[derive(Deserialize)]
        struct Execute {
            stmt: Stmt,
        }
        #[derive(Deserialize)]
        struct StoredSql {
            sql_id: i32,
            sql: String,
        }
        #[derive(Deserialize)]
        struct Close {
            sql_id: i32,
        }
        fn part<'a, T: Deserialize<'a>, E: serde::de::Error>(raw: &'a RawValue) -> Result<T, E> {
            serde_json::from_str(raw.get()).map_err(E::custom)
        }
        let raw = <&RawValue>::deserialize(deserializer)?;
        let tag: TypeTag = part(raw)?;
        Ok(match tag.r#type.as_str() {
            "execute" => Self::Execute { stmt: part::<Execute, _>(raw)?.stmt },
            "batch" => Self::Batch { batch: part::<Cursor, _>(raw)?.batch },
            "sequence" => Self::Sequence(part(raw)?),
            "describe" => Self::Describe(part(raw)?),
            "store_sql" => {
                let StoredSql { sql_id, sql } = part(raw)?;
                Self::StoreSql { sql_id, sql }
            }
            "close_sql" => Self::CloseSql { sql_id: part::<Close, _>(raw)?.sql_id },
            "get_autocommit" => Self::GetAutocommit,
            "close" => Self::Close,
            other => return Err(D::Error::custom(format!("unknown request type '{other}'"))),
        })
    }
}

/// An SQL text, inline or stored.
#[derive(Debug, Deserialize)]
pub(crate) struct SqlText {
    pub(crate) sql: Option<String>,
    pub(crate) sql_id: Option<i32>,
}

/// A statement with its arguments.
#[derive(Debug, Deserialize)]
pub(crate) struct Stmt {
    pub(crate) sql: Option<String>,
    pub(crate) sql_id: Option<i32>,
    #[serde(default)]
    pub(crate) args: Option<Vec<HranaValue>>,
    #[serde(default)]
    pub(crate) named_args: Option<Vec<NamedArg>>,
    #[serde(default)]
    pub(crate) want_rows: Option<bool>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct NamedArg {
    pub(crate) name: String,
    pub(crate) value: HranaValue,
}

/// A list of statements with conditions.
#[derive(Debug, Deserialize)]
pub(crate) struct HranaBatch {
    pub(crate) steps: Vec<BatchStep>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct BatchStep {
    #[serde(default)]
    pub(crate) condition: Option<Condition>,
    pub(crate) stmt: Stmt,
}

/// The condition under which a step runs.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Condition {
    Ok { step: usize },
    Error { step: usize },
    Not { cond: Box<Condition> },
    And { conds: Vec<Condition> },
    Or { conds: Vec<Condition> },
    IsAutocommit,
}

impl Condition {
    /// Returns the steps that the condition refers to.
    pub(crate) fn steps(&self) -> Vec<usize> {
        match self {
            Self::Ok { step } | Self::Error { step } => vec![*step],
            Self::Not { cond } => cond.steps(),
            Self::And { conds } | Self::Or { conds } => conds.iter().flat_map(Self::steps).collect(),
            Self::IsAutocommit => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipeline(text: &str) -> Result<Pipeline, serde_json::Error> {
        serde_json::from_str(text)
    }

    #[test]
    fn requests_of_every_kind_are_read_and_unknown_fields_ignored() {
        let read = pipeline(
            r#"{"baton":null,"new":1,"requests":[
                {"type":"execute","stmt":{"sql":"select ?","args":[{"type":"null"}],"named_args":[],"want_rows":true,"replication_index":"1"}},
                {"type":"execute","stmt":{"sql_id":3,"named_args":[{"name":"a","value":{"type":"text","value":"x"}}]}},
                {"type":"batch","batch":{"steps":[{"stmt":{"sql":"a"}},{"condition":{"type":"not","cond":{"type":"and","conds":[{"type":"ok","step":0},{"type":"or","conds":[{"type":"error","step":0},{"type":"is_autocommit"}]}]}},"stmt":{"sql":"b"}}]}},
                {"type":"sequence","sql":"a;b"},{"type":"describe","sql_id":3},{"type":"store_sql","sql_id":3,"sql":"x"},{"type":"close_sql","sql_id":3},
                {"type":"get_autocommit"},{"type":"close"}]}"#,
        )
        .unwrap();
        assert_eq!(read.requests.len(), 9);
        let HranaRequest::Batch { batch } = &read.requests[2] else { panic!("{:?}", read.requests[2]) };
        assert_eq!(batch.steps[1].condition.as_ref().unwrap().steps(), [0, 0]);
    }

    #[test]
    fn what_is_unknown_is_refused() {
        for text in [
            r#"{}"#,
            r#"{"requests":[{"type":"flush"}]}"#,
            r#"{"requests":[{"type":"execute","stmt":{"sql":1}}]}"#,
            r#"{"requests":[{"type":"execute","stmt":{"sql":"a","args":[{"type":"decimal","value":"1"}]}}]}"#,
            r#"{"requests":[{"type":"batch","batch":{"steps":[{"condition":{"type":"maybe"},"stmt":{"sql":"a"}}]}}]}"#,
        ] {
            assert!(pipeline(text).is_err(), "{text}");
        }
    }
}
