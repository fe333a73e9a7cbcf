//! Structured values as JSON text.
//!
//! The mirror types belong to this crate and carry a version, so an entity can change its shape while existing rows
//! stay readable. A changed mirror becomes `V2` beside `V1`. Reading never panics.

mod deployments;
mod row_resolutions;

pub(crate) use deployments::{
    from_copied, from_deployment, from_instance, from_sample, to_copied, to_deployment, to_instance, to_sample,
};

use std::collections::BTreeMap;

use branchyard_domain::entities::{
    DatabaseLocator, EditRequest, EditedValue, EventKind, FailureKind, ImportMode, ImportOptions, ImportRequest,
    ImportType, NumberLiteral, OperationFailure, Outcome, PullAction, PullEnds, Purged, PushRequest, PushTarget,
    RowEdit, RowProblem, Side, Tagger, TextEncoding, TextOptions, Work,
};
use branchyard_domain::values::{ChunkHash, CommitHash, PullNumber};
use data_encoding::BASE64;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use row_resolutions::RowResolutionV1;

use crate::convert::{Read, StoredWord, read, read_if, time};
use crate::error::Unreadable;

/// The versioned envelope: `{"v":"1", …}`.
#[derive(Serialize, Deserialize)]
#[serde(tag = "v")]
enum Versioned<T> {
    #[serde(rename = "1")]
    V1(T),
}

fn encode<T: Serialize>(column: &'static str, value: T) -> Read<String> {
    serde_json::to_string(&Versioned::V1(value)).map_err(|error| Unreadable { column, why: error.to_string() })
}

fn decode<T: DeserializeOwned>(column: &'static str, text: &str) -> Read<T> {
    match serde_json::from_str(text) {
        Ok(Versioned::V1(value)) => Ok(value),
        Err(error) => Err(Unreadable { column, why: error.to_string() }),
    }
}

macro_rules! mirrors {
    ($($mirror:ident = $entity:ident { $($variant:ident),+ $(,)? })+) => {$(
        #[derive(Serialize, Deserialize, Clone, Copy)]
        #[serde(rename_all = "snake_case")]
        enum $mirror { $($variant),+ }

        impl From<$entity> for $mirror {
            fn from(value: $entity) -> Self {
                match value { $($entity::$variant => Self::$variant),+ }
            }
        }

        impl From<$mirror> for $entity {
            fn from(value: $mirror) -> Self {
                match value { $($mirror::$variant => Self::$variant),+ }
            }
        }
    )+};
}

mirrors! {
    SideV1 = Side { Ours, Theirs }
    ImportModeV1 = ImportMode { Create, Overwrite, Update, Replace }
    PullActionV1 = PullAction { Opened, Closed, Reopened, Merged }
    FailureKindV1 = FailureKind {
        Content, MergeConflict, NotFound, Conflict, Unprocessable, Canceled, PermissionDenied, Internal, Unavailable,
    }
}

#[derive(Serialize, Deserialize)]
struct LocatorV1 {
    owner: String,
    name: String,
}

impl From<&DatabaseLocator> for LocatorV1 {
    fn from(locator: &DatabaseLocator) -> Self {
        Self { owner: locator.owner.to_string(), name: locator.name.to_string() }
    }
}

impl LocatorV1 {
    fn locator(self, column: &'static str) -> Read<DatabaseLocator> {
        Ok(DatabaseLocator { owner: read(column, self.owner)?, name: read(column, self.name)? })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum WorkV1 {
    SqlWrite {
        from_branch: String,
        to_branch: String,
        statements: String,
        message: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expected_head: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        start: Option<String>,
    },
    Merge {
        pull: i64,
        ends: EndsV1,
        message: String,
        resolve: BTreeMap<String, SideV1>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rows: Vec<RowResolutionV1>,
        /// Absent in most cases, and from before there was a choice.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        no_fast_forward: bool,
    },
    Fork {
        owner_id: String,
        owner: String,
        fork_id: String,
    },
    Import(ImportV1),
    Edit(EditV1),
    Purge,
    Push(PushV1),
    MirrorSync,
    Restore {
        branch: String,
        at: i64,
        to_branch: String,
    },
}

#[derive(Serialize, Deserialize)]
struct EditV1 {
    branch: String,
    to_branch: String,
    base: String,
    table: String,
    rows: Vec<RowEditV1>,
    message: String,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum RowEditV1 {
    Insert { set: Vec<(String, EditedValueV1)> },
    Update { key: Vec<(String, EditedValueV1)>, set: Vec<(String, EditedValueV1)> },
    Delete { key: Vec<(String, EditedValueV1)> },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum EditedValueV1 {
    Null,
    Number(String),
    Text(String),
    /// In base64.
    Blob(String),
}

#[derive(Serialize, Deserialize)]
struct PushV1 {
    target: PushTargetV1,
    commit: String,
    was: Option<String>,
    seen: String,
    replaces_first: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum PushTargetV1 {
    Branch { name: String, is_forced: bool },
    Tag { name: String, message: Option<String>, tagger: Option<(String, String)>, tagged_at: i64 },
}

#[derive(Serialize, Deserialize)]
struct EndsV1 {
    from: LocatorV1,
    from_branch: String,
    to_branch: String,
}

#[derive(Serialize, Deserialize)]
struct ImportV1 {
    upload_id: String,
    branch: String,
    table: String,
    file_name: String,
    file_type: String,
    mode: ImportModeV1,
    primary_keys: Vec<String>,
    message: String,
    pull_branch: Option<String>,
    column_map: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    column_types: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delimiter: Option<char>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    encoding: Option<String>,
}

const WORK: &str = "operations.work";

fn words_of(types: &BTreeMap<String, ImportType>) -> BTreeMap<String, String> {
    types.iter().map(|(column, column_type)| (column.clone(), column_type.word().to_owned())).collect()
}

pub(crate) fn from_work(work: &Work) -> Read<String> {
    let mirror = match work {
        Work::SqlWrite { from_branch, to_branch, statements, message, expected_head, start } => WorkV1::SqlWrite {
            from_branch: from_branch.to_string(),
            to_branch: to_branch.to_string(),
            statements: statements.clone(),
            message: message.clone(),
            expected_head: expected_head.as_ref().map(ToString::to_string),
            start: start.as_ref().map(ToString::to_string),
        },
        Work::Merge { pull, ends, message, resolve, rows, fast_forward } => WorkV1::Merge {
            rows: rows.iter().map(Into::into).collect(),
            no_fast_forward: !fast_forward,
            pull: pull.get(),
            ends: EndsV1 {
                from: (&ends.from).into(),
                from_branch: ends.from_branch.to_string(),
                to_branch: ends.to_branch.to_string(),
            },
            message: message.clone(),
            resolve: resolve.iter().map(|(table, side)| (table.clone(), (*side).into())).collect(),
        },
        Work::Fork { owner_id, owner, fork_id } => {
            WorkV1::Fork { owner_id: owner_id.to_string(), owner: owner.to_string(), fork_id: fork_id.to_string() }
        }
        Work::Import(import) => WorkV1::Import(ImportV1 {
            upload_id: import.upload_id.to_string(),
            branch: import.branch.to_string(),
            table: import.table.clone(),
            file_name: import.file_name.clone(),
            file_type: import.file_type.word().to_owned(),
            mode: import.mode.into(),
            primary_keys: import.primary_keys.clone(),
            message: import.message.clone(),
            pull_branch: import.pull_branch.as_ref().map(ToString::to_string),
            column_map: import.column_map.clone(),
            column_types: words_of(&import.options.column_types),
            delimiter: import.options.text.delimiter,
            encoding: (import.options.text.encoding != TextEncoding::default())
                .then(|| import.options.text.encoding.word().to_owned()),
        }),
        Work::Edit(edit) => WorkV1::Edit(EditV1 {
            branch: edit.branch.to_string(),
            to_branch: edit.to_branch.to_string(),
            base: edit.base.to_string(),
            table: edit.table.clone(),
            rows: edit.rows.iter().map(from_row_edit).collect(),
            message: edit.message.clone(),
        }),
        Work::Purge => WorkV1::Purge,
        Work::MirrorSync => WorkV1::MirrorSync,
        Work::Restore { branch, at, to_branch } => {
            WorkV1::Restore { branch: branch.to_string(), at: at.as_micros(), to_branch: to_branch.to_string() }
        }
        Work::Push(push) => WorkV1::Push(PushV1 {
            target: match &push.target {
                PushTarget::Branch { name, is_forced } => {
                    PushTargetV1::Branch { name: name.to_string(), is_forced: *is_forced }
                }
                PushTarget::Tag { name, message, tagger, tagged_at } => PushTargetV1::Tag {
                    name: name.to_string(),
                    message: message.clone(),
                    tagger: tagger.as_ref().map(|tagger| (tagger.name.clone(), tagger.email.clone())),
                    tagged_at: tagged_at.as_micros(),
                },
            },
            commit: push.commit.to_string(),
            was: push.was.as_ref().map(ToString::to_string),
            seen: push.seen.to_string(),
            replaces_first: push.replaces_first,
        }),
    };
    encode(WORK, mirror)
}

fn from_row_edit(edit: &RowEdit) -> RowEditV1 {
    let value = |value: &EditedValue| match value {
        EditedValue::Null => EditedValueV1::Null,
        EditedValue::Number(number) => EditedValueV1::Number(number.as_str().to_owned()),
        EditedValue::Text(text) => EditedValueV1::Text(text.clone()),
        EditedValue::Blob(bytes) => EditedValueV1::Blob(BASE64.encode(bytes)),
    };
    let cells =
        |cells: &[(String, EditedValue)]| cells.iter().map(|(name, cell)| (name.clone(), value(cell))).collect();
    match edit {
        RowEdit::Insert { set } => RowEditV1::Insert { set: cells(set) },
        RowEdit::Update { key, set } => RowEditV1::Update { key: cells(key), set: cells(set) },
        RowEdit::Delete { key } => RowEditV1::Delete { key: cells(key) },
    }
}

fn to_row_edit(mirror: RowEditV1) -> Read<RowEdit> {
    let value = |value| -> Read<EditedValue> {
        let wrong = |why: String| Unreadable { column: WORK, why };
        Ok(match value {
            EditedValueV1::Null => EditedValue::Null,
            EditedValueV1::Number(text) => {
                EditedValue::Number(NumberLiteral::parse(&text).ok_or_else(|| wrong(format!("no number: {text}")))?)
            }
            EditedValueV1::Text(text) => EditedValue::Text(text),
            EditedValueV1::Blob(text) => {
                EditedValue::Blob(BASE64.decode(text.as_bytes()).map_err(|error| wrong(error.to_string()))?)
            }
        })
    };
    let cells = |cells: Vec<(String, EditedValueV1)>| -> Read<Vec<(String, EditedValue)>> {
        cells.into_iter().map(|(name, cell)| Ok((name, value(cell)?))).collect()
    };
    Ok(match mirror {
        RowEditV1::Insert { set } => RowEdit::Insert { set: cells(set)? },
        RowEditV1::Update { key, set } => RowEdit::Update { key: cells(key)?, set: cells(set)? },
        RowEditV1::Delete { key } => RowEdit::Delete { key: cells(key)? },
    })
}

pub(crate) fn to_work(text: &str) -> Read<Work> {
    Ok(match decode(WORK, text)? {
        WorkV1::SqlWrite { from_branch, to_branch, statements, message, expected_head, start } => Work::SqlWrite {
            from_branch: read(WORK, from_branch)?,
            to_branch: read(WORK, to_branch)?,
            statements,
            message,
            expected_head: expected_head.map(|commit| read(WORK, commit)).transpose()?,
            start: start.map(|commit| read(WORK, commit)).transpose()?,
        },
        WorkV1::Merge { pull, ends, message, resolve, rows, no_fast_forward } => Work::Merge {
            rows: rows.into_iter().map(RowResolutionV1::resolution).collect::<Read<_>>()?,
            fast_forward: !no_fast_forward,
            pull: read(WORK, pull)?,
            ends: PullEnds {
                from: ends.from.locator(WORK)?,
                from_branch: read(WORK, ends.from_branch)?,
                to_branch: read(WORK, ends.to_branch)?,
            },
            message,
            resolve: resolve.into_iter().map(|(table, side)| (table, side.into())).collect(),
        },
        WorkV1::Fork { owner_id, owner, fork_id } => {
            Work::Fork { owner_id: read(WORK, owner_id)?, owner: read(WORK, owner)?, fork_id: read(WORK, fork_id)? }
        }
        WorkV1::Import(import) => Work::Import(ImportRequest {
            upload_id: read(WORK, import.upload_id)?,
            branch: read(WORK, import.branch)?,
            table: import.table,
            file_name: import.file_name,
            file_type: read(WORK, import.file_type)?,
            mode: import.mode.into(),
            primary_keys: import.primary_keys,
            message: import.message,
            pull_branch: read_if(WORK, import.pull_branch)?,
            column_map: import.column_map,
            options: ImportOptions {
                column_types: import
                    .column_types
                    .into_iter()
                    .map(|(column, word)| Ok((column, read(WORK, word)?)))
                    .collect::<Read<_>>()?,
                text: TextOptions {
                    delimiter: import.delimiter,
                    encoding: read_if(WORK, import.encoding)?.unwrap_or_default(),
                },
            },
        }),
        WorkV1::Edit(edit) => Work::Edit(EditRequest {
            branch: read(WORK, edit.branch)?,
            to_branch: read(WORK, edit.to_branch)?,
            base: read(WORK, edit.base)?,
            table: edit.table,
            rows: edit.rows.into_iter().map(to_row_edit).collect::<Read<_>>()?,
            message: edit.message,
        }),
        WorkV1::Purge => Work::Purge,
        WorkV1::MirrorSync => Work::MirrorSync,
        WorkV1::Restore { branch, at, to_branch } => {
            Work::Restore { branch: read(WORK, branch)?, at: time(at), to_branch: read(WORK, to_branch)? }
        }
        WorkV1::Push(push) => Work::Push(PushRequest {
            target: match push.target {
                PushTargetV1::Branch { name, is_forced } => PushTarget::Branch { name: read(WORK, name)?, is_forced },
                PushTargetV1::Tag { name, message, tagger, tagged_at } => PushTarget::Tag {
                    name: read(WORK, name)?,
                    message,
                    tagger: tagger.map(|(name, email)| Tagger { name, email }),
                    tagged_at: time(tagged_at),
                },
            },
            commit: read(WORK, push.commit)?,
            was: read_if(WORK, push.was)?,
            seen: ChunkHash::from(&read::<CommitHash>(WORK, push.seen)?),
            replaces_first: push.replaces_first,
        }),
    })
}

#[derive(Serialize, Deserialize)]
struct OutcomeV1 {
    commit: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rows_affected: Option<u64>,
    pull: Option<i64>,
    database: Option<(String, LocatorV1)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    purged: Option<PurgedV1>,
}

#[derive(Serialize, Deserialize)]
struct PurgedV1 {
    freed_bytes: u64,
    kept_by: Vec<String>,
}

const OUTCOME: &str = "operations.outcome";

pub(crate) fn from_outcome(outcome: &Outcome) -> Read<String> {
    encode(
        OUTCOME,
        OutcomeV1 {
            commit: outcome.commit.as_ref().map(ToString::to_string),
            previous: outcome.previous.as_ref().map(ToString::to_string),
            rows_affected: outcome.rows_affected,
            pull: outcome.pull.map(PullNumber::get),
            database: outcome.database.as_ref().map(|(id, locator)| (id.to_string(), locator.into())),
            purged: outcome.purged.as_ref().map(|purged| PurgedV1 {
                freed_bytes: purged.freed_bytes,
                kept_by: purged.kept_by.iter().map(ToString::to_string).collect(),
            }),
        },
    )
}

pub(crate) fn to_outcome(text: &str) -> Read<Outcome> {
    let mirror: OutcomeV1 = decode(OUTCOME, text)?;
    let database = match mirror.database {
        None => None,
        Some((id, locator)) => Some((read(OUTCOME, id)?, locator.locator(OUTCOME)?)),
    };
    let purged = |purged: PurgedV1| -> Read<Purged> {
        let kept_by = purged.kept_by.into_iter().map(|id| read(OUTCOME, id)).collect::<Read<_>>()?;
        Ok(Purged { freed_bytes: purged.freed_bytes, kept_by })
    };
    let purged = mirror.purged.map(purged).transpose()?;
    Ok(Outcome {
        commit: read_if(OUTCOME, mirror.commit)?,
        previous: read_if(OUTCOME, mirror.previous)?,
        rows_affected: mirror.rows_affected,
        pull: read_if(OUTCOME, mirror.pull)?,
        database,
        purged,
    })
}

#[derive(Serialize, Deserialize)]
struct FailureV1 {
    kind: FailureKindV1,
    detail: String,
    rows: Vec<RowProblemV1>,
}

#[derive(Serialize, Deserialize)]
struct RowProblemV1 {
    line: u64,
    column: Option<String>,
    detail: String,
}

const FAILURE: &str = "operations.failure";

pub(crate) fn from_failure(failure: &OperationFailure) -> Read<String> {
    let rows = failure
        .rows
        .iter()
        .map(|row| RowProblemV1 { line: row.line, column: row.column.clone(), detail: row.detail.clone() })
        .collect();
    encode(FAILURE, FailureV1 { kind: failure.kind.into(), detail: failure.detail.clone(), rows })
}

pub(crate) fn to_failure(text: &str) -> Read<OperationFailure> {
    let mirror: FailureV1 = decode(FAILURE, text)?;
    let rows = mirror
        .rows
        .into_iter()
        .map(|row| RowProblem { line: row.line, column: row.column, detail: row.detail })
        .collect();
    Ok(OperationFailure { kind: mirror.kind.into(), detail: mirror.detail, rows })
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum EventV1 {
    Push {
        branch: String,
        head: String,
        previous: String,
    },
    BranchCreated {
        branch: String,
    },
    BranchDeleted {
        branch: String,
    },
    Pull {
        number: i64,
        action: PullActionV1,
        from: LocatorV1,
        from_branch: String,
        to_branch: String,
        author: String,
        sender: String,
    },
    Ping {
        hook: String,
    },
}

const EVENT: &str = "events.event";

pub(crate) fn from_event(kind: &EventKind) -> Read<String> {
    let mirror = match kind {
        EventKind::Push { branch, head, previous } => {
            EventV1::Push { branch: branch.to_string(), head: head.to_string(), previous: previous.to_string() }
        }
        EventKind::BranchCreated { branch } => EventV1::BranchCreated { branch: branch.to_string() },
        EventKind::BranchDeleted { branch } => EventV1::BranchDeleted { branch: branch.to_string() },
        EventKind::Pull { number, action, from, from_branch, to_branch, author, sender } => EventV1::Pull {
            number: number.get(),
            action: (*action).into(),
            from: from.into(),
            from_branch: from_branch.to_string(),
            to_branch: to_branch.to_string(),
            author: author.to_string(),
            sender: sender.to_string(),
        },
        EventKind::Ping { hook } => EventV1::Ping { hook: hook.to_string() },
    };
    encode(EVENT, mirror)
}

pub(crate) fn to_event(text: &str) -> Read<EventKind> {
    Ok(match decode(EVENT, text)? {
        EventV1::Push { branch, head, previous } => {
            EventKind::Push { branch: read(EVENT, branch)?, head: read(EVENT, head)?, previous: read(EVENT, previous)? }
        }
        EventV1::BranchCreated { branch } => EventKind::BranchCreated { branch: read(EVENT, branch)? },
        EventV1::BranchDeleted { branch } => EventKind::BranchDeleted { branch: read(EVENT, branch)? },
        EventV1::Pull { number, action, from, from_branch, to_branch, author, sender } => EventKind::Pull {
            number: read(EVENT, number)?,
            action: action.into(),
            from: from.locator(EVENT)?,
            from_branch: read(EVENT, from_branch)?,
            to_branch: read(EVENT, to_branch)?,
            author: read(EVENT, author)?,
            sender: read(EVENT, sender)?,
        },
        EventV1::Ping { hook } => EventKind::Ping { hook: read(EVENT, hook)? },
    })
}

#[derive(Serialize, Deserialize)]
struct HeadersV1 {
    headers: Vec<(String, String)>,
}

pub(crate) fn from_headers(column: &'static str, headers: &[(String, String)]) -> Read<String> {
    encode(column, HeadersV1 { headers: headers.to_vec() })
}

pub(crate) fn to_headers(column: &'static str, text: &str) -> Read<Vec<(String, String)>> {
    let HeadersV1 { headers } = decode(column, text)?;
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The format of existing stores. A change of this text is a change of format: add `V2`.
    #[test]
    fn the_stored_form_stays() {
        let text = r#"{"v":"1","kind":"merge","pull":7,"ends":{"from":{"owner":"ann","name":"menu"},"from_branch":"f","to_branch":"t"},"message":"m","resolve":{"t":"ours"}}"#;
        let work = to_work(text).unwrap();
        assert_eq!(
            work,
            Work::Merge {
                pull: PullNumber::new(7).unwrap(),
                ends: PullEnds {
                    from: DatabaseLocator {
                        owner: read(WORK, "ann".into()).unwrap(),
                        name: read(WORK, "menu".into()).unwrap()
                    },
                    from_branch: read(WORK, "f".into()).unwrap(),
                    to_branch: read(WORK, "t".into()).unwrap(),
                },
                message: "m".to_owned(),
                resolve: BTreeMap::from([("t".to_owned(), Side::Ours)]),
                rows: Vec::new(),
                fast_forward: true,
            }
        );
        assert_eq!(from_work(&work).unwrap(), text);
        let failure = OperationFailure::new(FailureKind::MergeConflict, "both");
        assert_eq!(from_failure(&failure).unwrap(), r#"{"v":"1","kind":"merge_conflict","detail":"both","rows":[]}"#);
        assert_eq!(
            from_outcome(&Outcome::default()).unwrap(),
            r#"{"v":"1","commit":null,"pull":null,"database":null}"#
        );
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        for text in [
            "",
            "{}",
            r#"{"v":"2","kind":"merge"}"#,
            r#"{"v":"1","kind":"dance"}"#,
            r#"{"v":"1","kind":"merge","pull":0,"message":"m","resolve":{}}"#,
            r#"{"v":"1","kind":"fork","owner_id":"x","owner":"ann","fork_id":"y"}"#,
        ] {
            assert!(to_work(text).is_err(), "{text}");
        }
    }
}
