//! Checks of a whole body, made before any part of it runs.

use std::collections::BTreeSet;

use super::errors::HttpError;
use super::wire::{HranaBatch, HranaRequest, Stmt};

/// Maximum number of SQL texts that a stream stores.
pub(crate) const MOST_STORED: usize = 100;
/// Maximum size of a stored text in bytes.
pub(crate) const LONGEST_STORED: usize = 64 * 1024;

/// Checks the requests of a pipeline on a stream that has stored these texts.
pub(crate) fn pipeline(requests: &[HranaRequest], stored: &BTreeSet<i32>, most_steps: usize) -> Result<(), HttpError> {
    if requests.len() > most_steps {
        return Err(too_many("requests of a pipeline", most_steps));
    }
    let mut stored = stored.clone();
    for request in requests {
        match request {
            HranaRequest::Execute { stmt } => statement(stmt, &stored)?,
            HranaRequest::Batch { batch } => self::batch(batch, &stored, most_steps)?,
            HranaRequest::Sequence(text) | HranaRequest::Describe(text) => {
                self::text(text.sql.as_deref(), text.sql_id, &stored)?
            }
            HranaRequest::StoreSql { sql_id, sql } => {
                if stored.contains(sql_id) {
                    return Err(HttpError::Protocol(format!("sql_id {sql_id} is taken")));
                }
                // The result of the request reports whether the text was stored.
                if stored.len() < MOST_STORED && sql.len() <= LONGEST_STORED {
                    stored.insert(*sql_id);
                }
            }
            HranaRequest::CloseSql { sql_id } => {
                stored.remove(sql_id);
            }
            HranaRequest::GetAutocommit | HranaRequest::Close => {}
        }
    }
    Ok(())
}

/// Checks a batch: the number of steps, the stored texts, and that conditions name only earlier steps.
pub(crate) fn batch(batch: &HranaBatch, stored: &BTreeSet<i32>, most_steps: usize) -> Result<(), HttpError> {
    if batch.steps.len() > most_steps {
        return Err(too_many("steps of a batch", most_steps));
    }
    for (at, step) in batch.steps.iter().enumerate() {
        statement(&step.stmt, stored)?;
        let named = step.condition.as_ref().map(|condition| condition.steps()).unwrap_or_default();
        if let Some(later) = named.into_iter().find(|named| *named >= at) {
            return Err(HttpError::Protocol(format!(
                "the condition of step {at} names step {later}, which is not earlier"
            )));
        }
    }
    Ok(())
}

fn too_many(what: &str, most: usize) -> HttpError {
    HttpError::Protocol(format!("at most {most} {what}; query_max_batch_steps says so"))
}

fn statement(stmt: &Stmt, stored: &BTreeSet<i32>) -> Result<(), HttpError> {
    text(stmt.sql.as_deref(), stmt.sql_id, stored)
}

fn text(sql: Option<&str>, sql_id: Option<i32>, stored: &BTreeSet<i32>) -> Result<(), HttpError> {
    match (sql, sql_id) {
        (Some(_), None) => Ok(()),
        (None, Some(id)) if stored.contains(&id) => Ok(()),
        (None, Some(id)) => Err(HttpError::Protocol(format!("no text is stored as sql_id {id}"))),
        (None, None) => Err(HttpError::Protocol("a statement has sql or sql_id".into())),
        (Some(_), Some(_)) => Err(HttpError::Protocol("a statement has sql or sql_id, not both".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hrana::wire::Pipeline;

    fn checked(requests: &str, most: usize) -> Result<(), HttpError> {
        let read: Pipeline = serde_json::from_str(&format!(r#"{{"requests":[{requests}]}}"#)).unwrap();
        pipeline(&read.requests, &BTreeSet::from([1]), most)
    }

    #[test]
    fn stored_texts_are_known_before_they_are_used() {
        let execute = |id| format!(r#"{{"type":"execute","stmt":{{"sql_id":{id}}}}}"#);
        let store = |id| format!(r#"{{"type":"store_sql","sql_id":{id},"sql":"x"}}"#);
        assert_eq!(checked(&execute(1), 9), Ok(()));
        assert_eq!(checked(&format!("{},{}", store(2), execute(2)), 9), Ok(()));
        let closed = format!(r#"{{"type":"close_sql","sql_id":1}},{}"#, execute(1));
        for refused in [execute(2), closed, store(1), r#"{"type":"describe"}"#.into()] {
            assert!(matches!(checked(&refused, 9), Err(HttpError::Protocol(_))), "{refused}");
        }
        let both = r#"{"type":"sequence","sql":"a","sql_id":1}"#;
        assert!(checked(both, 9).is_err());
    }

    #[test]
    fn conditions_name_earlier_steps_and_batches_have_a_limit() {
        let step = |named: usize| format!(r#"{{"condition":{{"type":"ok","step":{named}}},"stmt":{{"sql":"a"}}}}"#);
        let batch = |steps: &str| format!(r#"{{"type":"batch","batch":{{"steps":[{steps}]}}}}"#);
        assert_eq!(checked(&batch(&format!(r#"{{"stmt":{{"sql":"a"}}}},{}"#, step(0))), 2), Ok(()));
        assert!(checked(&batch(&step(0)), 9).is_err());
        assert!(checked(&batch(&format!(r#"{{"stmt":{{"sql":"a"}}}},{}"#, step(1))), 9).is_err());
        let three = [r#"{"stmt":{"sql":"a"}}"#; 3].join(",");
        assert!(checked(&batch(&three), 3).is_ok() && checked(&batch(&three), 2).is_err());
        let closes = [r#"{"type":"close"}"#; 3].join(",");
        assert!(checked(&closes, 3).is_ok() && checked(&closes, 2).is_err());
    }
}
