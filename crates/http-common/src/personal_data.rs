//! The files of an export of a user's data. `docs/personal-data.md` describes them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use branchyard_domain::entities::{
    ActivityKind, Cell, Database, DatabaseLocator, EditedValue, Hook, HookEvent, LastUse, MemberRole, Operation,
    OperationStatus, PullAction, PushRequest, PushTarget, RegisteredApplication, ResolvedRow, Role, RowEdit,
    RowResolution, Side, User, Visibility, Work,
};
use branchyard_domain::usecases::{GrantView, PersonalData};
use branchyard_domain::values::{RedirectUri, Timestamp};
use serde_json::{Value, json};

use crate::time::rfc3339;

/// Returns the names and the contents of the files. Secrets and their hashes are left out.
#[must_use]
pub fn files(data: &PersonalData) -> Vec<(&'static str, Value)> {
    let tokens = data.tokens.iter().map(|token| {
        json!({
            "id": token.id.to_string(),
            "name": token.name,
            "created_at": rfc3339(token.created_at),
            "expires_at": rfc3339(token.expires_at),
            "last_use": token.last_use.as_ref().map(last_use),
        })
    });
    let keys = data.keys.iter().map(|key| {
        json!({
            "id": key.id.to_string(),
            "name": key.name,
            "public_key": key.public_key.to_string(),
            "created_at": rfc3339(key.created_at),
            "last_used_at": key.last_used_at.map(rfc3339),
        })
    });
    let grants = data.grants.iter().map(|GrantView { grant, application }| {
        json!({
            "id": grant.id.to_string(),
            "application": application.application.name,
            "client_id": grant.application.as_str(),
            "scope": grant.scope.as_str(),
            "created_at": rfc3339(grant.created_at),
            "expires_at": rfc3339(grant.expires_at),
            "last_use": grant.last_use.as_ref().map(last_use),
        })
    });
    let applications = data.applications.iter().map(|RegisteredApplication { application, .. }| {
        let uris: Vec<&str> = application.redirect_uris.iter().map(RedirectUri::as_str).collect();
        json!({
            "client_id": application.id.as_str(),
            "name": application.name,
            "redirect_uris": uris,
            "created_at": rfc3339(application.created_at),
        })
    });
    let sessions = data.sessions.iter().map(|session| {
        json!({
            "id": session.id.to_string(),
            "created_at": rfc3339(session.created_at),
            "expires_at": rfc3339(session.expires_at),
            "password_entered_at": rfc3339(session.confirmed_at),
            "last_use": last_use(&session.last_use),
        })
    });
    let invitations = data.invitations.iter().map(|invitation| {
        json!({
            "id": invitation.id.to_string(),
            "is_admin": invitation.is_admin,
            "created_at": rfc3339(invitation.created_at),
            "expires_at": rfc3339(invitation.expires_at),
        })
    });
    let memberships = data.memberships.iter().map(|(organization, role)| {
        let role = match role {
            MemberRole::Member => "member",
            MemberRole::Owner => "owner",
        };
        json!({"organization": organization.name.as_str(), "role": role})
    });
    let collaborations = data.collaborations.iter().map(|(database, role, since)| {
        json!({"database": database.to_string(), "role": role_word(*role), "added_at": rfc3339(*since)})
    });
    let stars = data.stars.iter().map(|(database, at)| on(database, *at));
    let pulls = data.pulls.iter().map(|pull| {
        json!({
            "database": pull.database.to_string(),
            "number": pull.number.get(),
            "title": pull.title,
            "description": pull.description,
            "from_branch": pull.from_branch.as_str(),
            "to_branch": pull.to_branch.as_str(),
            "created_at": rfc3339(pull.created_at),
        })
    });
    let comments = data.comments.iter().map(|(database, number, comment)| {
        json!({
            "id": comment.id.to_string(),
            "database": database.to_string(),
            "pull": number.get(),
            "comment": comment.body,
            "created_at": rfc3339(comment.created_at),
            "updated_at": rfc3339(comment.updated_at),
        })
    });
    let activity = data.activities.iter().map(|(database, activity)| {
        let (kind, subject) = activity_words(&activity.kind);
        json!({"database": database.to_string(), "at": rfc3339(activity.at), "kind": kind, "subject": subject})
    });
    vec![
        ("profile.json", profile(&data.user)),
        ("tokens.json", tokens.collect()),
        ("keys.json", keys.collect()),
        ("grants.json", grants.collect()),
        ("applications.json", applications.collect()),
        ("sessions.json", sessions.collect()),
        ("invitations.json", invitations.collect()),
        ("memberships.json", memberships.collect()),
        ("collaborations.json", collaborations.collect()),
        ("stars.json", stars.collect()),
        ("databases.json", data.databases.iter().map(database).collect()),
        ("pulls.json", pulls.collect()),
        ("comments.json", comments.collect()),
        ("activity.json", activity.collect()),
        ("operations.json", data.operations.iter().map(operation).collect()),
    ]
}

fn profile(user: &User) -> Value {
    let emails = user.emails.iter().map(
        |email| json!({"address": email.address, "is_primary": email.is_primary, "is_verified": email.is_verified}),
    );
    json!({
        "id": user.id.to_string(),
        "username": user.name.as_str(),
        "display_name": user.display_name,
        "bio": user.bio,
        "location": user.location,
        "website_url": user.website_url,
        "profile_pic_url": user.profile_pic_url,
        "emails": emails.collect::<Value>(),
        "has_password": user.password_hash.is_some(),
        "is_admin": user.is_admin,
        "created_at": rfc3339(user.created_at),
    })
}

fn last_use(last_use: &LastUse) -> Value {
    json!({"at": rfc3339(last_use.at), "address": last_use.address, "user_agent": last_use.user_agent})
}

fn on(database: &DatabaseLocator, at: Timestamp) -> Value {
    json!({"database": database.to_string(), "starred_at": rfc3339(at)})
}

fn role_word(role: Role) -> &'static str {
    match role {
        Role::Read => "read",
        Role::Write => "write",
        Role::Admin => "admin",
    }
}

fn database((database, hooks): &(Database, Vec<Hook>)) -> Value {
    let hooks = hooks.iter().map(|hook| {
        let events = hook.events.iter().map(|event| match event {
            HookEvent::Push => "push",
            HookEvent::PullRequest => "pull_request",
            HookEvent::Branch => "branch",
        });
        json!({
            "id": hook.id.to_string(),
            "url": hook.url,
            "events": events.collect::<Vec<_>>(),
            "active": hook.active,
            "created_at": rfc3339(hook.created_at),
        })
    });
    json!({
        "name": database.locator.to_string(),
        "description": database.description,
        "visibility": match database.visibility {
            Visibility::Public => "public",
            Visibility::Private => "private",
        },
        "size_bytes": database.size_bytes,
        "created_at": rfc3339(database.created_at),
        "last_write_at": database.last_write_at.map(rfc3339),
        "hooks": hooks.collect::<Value>(),
    })
}

/// Returns an edit of a row. Bytes are in base64.
fn edited_row(edit: &RowEdit) -> Value {
    let value = |value: &EditedValue| match value {
        EditedValue::Null => Value::Null,
        EditedValue::Number(number) => json!(number.as_str()),
        EditedValue::Text(text) => json!(text),
        EditedValue::Blob(bytes) => json!({"base64": STANDARD.encode(bytes)}),
    };
    let cells = |cells: &[(String, EditedValue)]| -> Value {
        cells.iter().map(|(column, cell)| (column.clone(), value(cell))).collect::<serde_json::Map<_, _>>().into()
    };
    match edit {
        RowEdit::Insert { set } => json!({"op": "insert", "set": cells(set)}),
        RowEdit::Update { key, set } => json!({"op": "update", "key": cells(key), "set": cells(set)}),
        RowEdit::Delete { key } => json!({"op": "delete", "key": cells(key)}),
    }
}

/// Returns the input of a push.
fn pushed(push: &PushRequest) -> Value {
    match &push.target {
        PushTarget::Branch { name, .. } => json!({"branch": name.as_str(), "commit": push.commit.as_str()}),
        PushTarget::Tag { name, message, .. } => {
            json!({"tag": name.as_str(), "commit": push.commit.as_str(), "message": message})
        }
    }
}

fn activity_words(kind: &ActivityKind) -> (&'static str, String) {
    match kind {
        ActivityKind::Pushed { branch, .. } => ("push", branch.to_string()),
        ActivityKind::BranchCreated { branch } => ("branch_created", branch.to_string()),
        ActivityKind::BranchDeleted { branch } => ("branch_deleted", branch.to_string()),
        ActivityKind::Released { tag } => ("release", tag.to_string()),
        ActivityKind::Pull { number, action } => {
            let word = match action {
                PullAction::Opened => "pull_opened",
                PullAction::Closed => "pull_closed",
                PullAction::Reopened => "pull_reopened",
                PullAction::Merged => "pull_merged",
            };
            (word, number.get().to_string())
        }
    }
}

fn row_resolution(resolution: &RowResolution) -> Value {
    let RowResolution { table, primary_key, becomes } = resolution;
    let row = |cells: &[(String, Cell)]| -> Value {
        let cell = |cell: &Cell| match cell {
            Cell::Null => Value::Null,
            Cell::Integer(number) => json!(number),
            Cell::Real(number) => json!(number),
            Cell::Text(text) => json!(String::from_utf8_lossy(text)),
            Cell::Blob(bytes) => json!({"base64": STANDARD.encode(bytes)}),
        };
        cells.iter().map(|(column, value)| (column.clone(), cell(value))).collect::<serde_json::Map<_, _>>().into()
    };
    let becomes = match becomes {
        ResolvedRow::Of(Side::Ours) => json!("ours"),
        ResolvedRow::Of(Side::Theirs) => json!("theirs"),
        ResolvedRow::With(values) => row(values),
    };
    json!({"table": table, "primary_key": row(primary_key), "row": becomes})
}

fn operation(operation: &Operation) -> Value {
    let (kind, input) = match &operation.work {
        Work::SqlWrite { from_branch, to_branch, statements, message, expected_head: _, start: _ } => (
            "sql_write",
            json!({
                "from_branch": from_branch.as_str(),
                "to_branch": to_branch.as_str(),
                "statements": statements,
                "message": message,
            }),
        ),
        Work::Merge { pull, message, rows, .. } => {
            let rows: Vec<Value> = rows.iter().map(row_resolution).collect();
            ("merge", json!({"pull": pull.get(), "message": message, "rows": rows}))
        }
        Work::Fork { owner, .. } => ("fork", json!({"owner": owner.as_str()})),
        Work::Import(import) => (
            "import",
            json!({
                "branch": import.branch.as_str(),
                "table": import.table,
                "file_name": import.file_name,
                "message": import.message,
            }),
        ),
        Work::Edit(edit) => (
            "edit",
            json!({
                "branch": edit.branch.as_str(),
                "to_branch": edit.to_branch.as_str(),
                "base": edit.base.as_str(),
                "table": edit.table,
                "rows": edit.rows.iter().map(edited_row).collect::<Vec<_>>(),
                "message": edit.message,
            }),
        ),
        Work::Purge => ("purge", json!({})),
        Work::MirrorSync => ("mirror_sync", json!({})),
        Work::Restore { branch, at, to_branch } => {
            ("restore", json!({"branch": branch.as_str(), "at": rfc3339(*at), "to_branch": to_branch.as_str()}))
        }
        Work::Push(push) => ("push", pushed(push)),
    };
    let status = match &operation.status {
        OperationStatus::Queued => "queued",
        OperationStatus::Running => "running",
        OperationStatus::Succeeded(_) => "succeeded",
        OperationStatus::Failed(_) => "failed",
    };
    json!({
        "id": operation.id.to_string(),
        "database": operation.locator.to_string(),
        "type": kind,
        "input": input,
        "status": status,
        "created_at": rfc3339(operation.created_at),
        "finished_at": operation.finished_at.map(rfc3339),
    })
}
