//! The commands `user list|suspend|resume|make-admin`, `token list|revoke`, `session list|end` and
//! `database quarantine|release`. `docs/configuration.md` documents their JSON.

use branchyard_domain::Hub;
use branchyard_domain::entities::{Database, LastUse, User};
use branchyard_domain::ports::UserFilter;
use branchyard_domain::values::Timestamp;
use chrono::{DateTime, SecondsFormat};
use serde_json::{Value, json};

use super::print;
use crate::cli::Selected;

/// Entries that are read at once.
const PAGE: usize = 500;

/// Writes to the log what an operator did. The log of a command is its standard error, because the server has its own.
pub(super) fn audit(action: &str, target: &str) -> anyhow::Result<()> {
    super::print_note(&format!("audit: the operator did `{action}` on {target}"))
}

pub(super) fn time(at: Timestamp) -> String {
    DateTime::from_timestamp_micros(at.as_micros())
        .map(|at| at.to_rfc3339_opts(SecondsFormat::Millis, true))
        .unwrap_or_default()
}

pub(super) fn time_or_null(at: Option<Timestamp>) -> Value {
    at.map(time).map_or(Value::Null, Value::String)
}

fn user_json(user: &User) -> Value {
    json!({
        "name": user.name.as_str(),
        "admin": user.is_admin,
        "suspended_at": time_or_null(user.suspended_at),
        "created_at": time(user.created_at),
    })
}

fn last_use_json(last_use: Option<&LastUse>) -> Value {
    match last_use {
        None => Value::Null,
        Some(last) => json!({ "at": time(last.at), "address": last.address, "user_agent": last.user_agent }),
    }
}

/// Replaces control characters, so that a text that a client chose cannot forge lines or drive a terminal.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

pub(super) fn list_users(hub: &Hub, as_json: bool) -> anyhow::Result<()> {
    let administration = hub.administration();
    let operator = administration.operator();
    let mut after: Option<String> = None;
    loop {
        let page = administration.users(&operator, &UserFilter::default(), after.as_deref(), PAGE)?;
        for found in &page {
            let user = &found.user;
            if as_json {
                let mut line = user_json(user);
                line["last_seen_at"] = time_or_null(found.last_seen_at);
                print(line)?;
                continue;
            }
            let admin = if user.is_admin { ", administrator" } else { "" };
            let suspended = user.suspended_at.map(|at| format!(", suspended {}", time(at))).unwrap_or_default();
            let seen = found.last_seen_at.map(|at| format!(", last seen {}", time(at))).unwrap_or_default();
            print(format!("{}: created {}{admin}{suspended}{seen}", user.name, time(user.created_at)))?;
        }
        match page.last() {
            Some(last) if page.len() == PAGE => after = Some(last.user.name.key()),
            _ => return Ok(()),
        }
    }
}

fn changed(user: &User, action: &str, sentence: &str, as_json: bool) -> anyhow::Result<()> {
    audit(action, user.name.as_str())?;
    if as_json { print(user_json(user)) } else { print(format!("{}: {sentence}", user.name)) }
}

pub(super) fn suspend(hub: &Hub, name: &str, as_json: bool) -> anyhow::Result<()> {
    let administration = hub.administration();
    let user = administration.suspend(&administration.operator(), name)?;
    changed(&user, "user suspend", "suspended; sessions ended, queued operations failed, tokens refused", as_json)
}

pub(super) fn resume(hub: &Hub, name: &str, as_json: bool) -> anyhow::Result<()> {
    let administration = hub.administration();
    let user = administration.resume(&administration.operator(), name)?;
    changed(&user, "user resume", "not suspended", as_json)
}

pub(super) fn make_admin(hub: &Hub, name: &str, as_json: bool) -> anyhow::Result<()> {
    let administration = hub.administration();
    let user = administration.make_admin(&administration.operator(), name)?;
    changed(&user, "user make-admin", "administrator of this server", as_json)
}

pub(super) fn list_tokens(hub: &Hub, user: &str, as_json: bool) -> anyhow::Result<()> {
    let administration = hub.administration();
    let operator = administration.operator();
    let mut after = None;
    loop {
        let page = administration.tokens(&operator, user, after, PAGE)?;
        for token in &page {
            if as_json {
                print(json!({
                    "id": token.id.to_string(),
                    "name": token.name,
                    "created_at": time(token.created_at),
                    "expires_at": time(token.expires_at),
                    "last_use": last_use_json(token.last_use.as_ref()),
                }))?;
                continue;
            }
            let used = match &token.last_use {
                None => "never used".to_owned(),
                Some(last) => format!("last used {} from {}", time(last.at), plain(&last.address)),
            };
            print(format!("{} {}: expires {}, {used}", token.id, plain(&token.name), time(token.expires_at)))?;
        }
        match page.last() {
            Some(last) if page.len() == PAGE => after = Some(last.id),
            _ => return Ok(()),
        }
    }
}

fn ended(noun: &str, count: usize, as_json: bool) -> anyhow::Result<()> {
    if as_json { print(json!({ noun: count })) } else { print(format!("{}: {count}", noun.replace('_', " "))) }
}

pub(super) fn revoke_tokens(hub: &Hub, selected: &Selected) -> anyhow::Result<()> {
    let administration = hub.administration();
    let operator = administration.operator();
    let count = match (&selected.user, &selected.id) {
        (Some(user), _) => {
            let count = administration.revoke_tokens(&operator, user)?;
            audit("token revoke --all", user)?;
            count
        }
        (None, id) => {
            let token = administration.revoke_token(&operator, id.as_deref().unwrap_or_default())?;
            audit("token revoke", &token.id.to_string())?;
            1
        }
    };
    ended("tokens_revoked", count, selected.json)
}

pub(super) fn list_sessions(hub: &Hub, user: &str, as_json: bool) -> anyhow::Result<()> {
    let administration = hub.administration();
    for session in administration.sessions(&administration.operator(), user)? {
        if as_json {
            print(json!({
                "id": session.id.to_string(),
                "created_at": time(session.created_at),
                "expires_at": time(session.expires_at),
                "last_use": last_use_json(Some(&session.last_use)),
            }))?;
            continue;
        }
        let last = &session.last_use;
        let (address, agent) = (plain(&last.address), plain(&last.user_agent));
        print(format!("{}: last used {} from {address} with {agent}", session.id, time(last.at)))?;
    }
    Ok(())
}

pub(super) fn end_sessions(hub: &Hub, selected: &Selected) -> anyhow::Result<()> {
    let administration = hub.administration();
    let operator = administration.operator();
    let count = match (&selected.user, &selected.id) {
        (Some(user), _) => {
            let count = administration.end_sessions(&operator, user)?;
            audit("session end --all", user)?;
            count
        }
        (None, id) => {
            let session = administration.end_session(&operator, id.as_deref().unwrap_or_default())?;
            audit("session end", &session.id.to_string())?;
            1
        }
    };
    ended("sessions_ended", count, selected.json)
}

fn owner_and_name(database: &str) -> anyhow::Result<(&str, &str)> {
    database
        .split_once('/')
        .ok_or_else(|| anyhow::anyhow!("'{database}' is not the name of a database; write OWNER/NAME"))
}

fn show_database(database: &Database, action: &str, as_json: bool) -> anyhow::Result<()> {
    audit(action, &database.locator.to_string())?;
    if as_json {
        return print(json!({
            "database": database.locator.to_string(),
            "quarantined_at": time_or_null(database.quarantined_at),
        }));
    }
    let standing = if database.quarantined_at.is_some() { "quarantined" } else { "not quarantined" };
    print(format!("{}: {standing}", database.locator))
}

pub(super) fn quarantine(hub: &Hub, database: &str, as_json: bool) -> anyhow::Result<()> {
    let (owner, name) = owner_and_name(database)?;
    let administration = hub.administration();
    let database = administration.quarantine(&administration.operator(), owner, name)?;
    show_database(&database, "database quarantine", as_json)
}

pub(super) fn release(hub: &Hub, database: &str, as_json: bool) -> anyhow::Result<()> {
    let (owner, name) = owner_and_name(database)?;
    let administration = hub.administration();
    let database = administration.release(&administration.operator(), owner, name)?;
    show_database(&database, "database release", as_json)
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn a_text_of_a_client_cannot_forge_a_line() {
        assert_eq!(plain("curl\n\u{1b}[2J é"), "curl\u{fffd}\u{fffd}[2J é");
    }
}
