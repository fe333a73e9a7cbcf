//! Answers stored for idempotency keys.

use branchyard_domain::ports::{IdempotencyRepository, MetadataError, SavedAnswer};
use branchyard_domain::values::{AccountId, Timestamp};
use diesel::prelude::*;

use crate::convert::{count, one, read, time};
use crate::schema::answers;
use crate::transaction::SqlTransaction;

type Result<T> = std::result::Result<T, MetadataError>;

impl IdempotencyRepository for SqlTransaction {
    fn add(&mut self, answer: &SavedAnswer) -> Result<()> {
        self.run_apart_from_rights_unless_taken("keep an answer", |conn| {
            diesel::insert_into(answers::table)
                .values((
                    answers::caller_id.eq(answer.caller.to_string()),
                    answers::scope.eq(&answer.scope),
                    answers::idempotency_key.eq(&answer.key),
                    answers::request_hash.eq(answer.request_hash.as_slice()),
                    answers::answer.eq(answer.answer.as_slice()),
                    answers::created_at.eq(answer.created_at.as_micros()),
                ))
                .execute(conn)?;
            Ok(())
        })
    }

    fn get(&mut self, caller: AccountId, scope: &str, key: &str, not_before: Timestamp) -> Result<Option<SavedAnswer>> {
        self.run_apart_from_rights("find an answer", |conn| {
            let row: Option<(Vec<u8>, Vec<u8>, i64)> = answers::table
                .filter(answers::caller_id.eq(caller.to_string()))
                .filter(answers::scope.eq(scope))
                .filter(answers::idempotency_key.eq(key))
                .filter(answers::created_at.ge(not_before.as_micros()))
                .select((answers::request_hash, answers::answer, answers::created_at))
                .first(conn)
                .optional()?;
            one(row, |(request_hash, answer, created_at)| {
                Ok(SavedAnswer {
                    caller,
                    scope: scope.to_owned(),
                    key: key.to_owned(),
                    request_hash: read("answers.request_hash", request_hash)?,
                    answer,
                    created_at: time(created_at),
                })
            })
        })
    }

    fn purge(&mut self, before: Timestamp) -> Result<u64> {
        self.run_apart_from_rights("purge answers", |conn| {
            let removed =
                diesel::delete(answers::table.filter(answers::created_at.lt(before.as_micros()))).execute(conn)?;
            Ok(count(i64::try_from(removed).unwrap_or(i64::MAX)))
        })
    }
}
