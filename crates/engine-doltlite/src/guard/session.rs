//! The allow-lists for sessions of deployment clients (hosted-v1 §8.7, §8.8). Everything that is named neither here nor
//! in `lists` is refused.

use std::collections::HashSet;

use branchyard_domain::ports::SqlPower;
use rusqlite::hooks::{AuthAction, AuthContext};

use super::lists::{self, Function, TableAccess};
use super::{GuardRefusal, StatementEffects};

/// Functions that return the state of the session or the database.
const STANDING: &[&str] = &["active_branch", "dolt_config"];

/// Functions that change the database, a branch, a tag, or the branch of the session.
const CHANGING: &[&str] = &[
    "dolt_add",
    "dolt_branch",
    "dolt_checkout",
    "dolt_cherry_pick",
    "dolt_commit",
    "dolt_conflicts_resolve",
    "dolt_merge",
    "dolt_rebase",
    "dolt_reset",
    "dolt_revert",
    "dolt_tag",
];

/// The functions of [`CHANGING`] that may leave the session on another branch.
const MOVING: &[&str] = &["dolt_branch", "dolt_checkout", "dolt_rebase"];

/// Tables about versions.
const VERSION_TABLES: &[&str] = &[
    "dolt_branches",
    "dolt_conflicts",
    "dolt_constraint_violations",
    "dolt_diff",
    "dolt_diff_stat",
    "dolt_diff_summary",
    "dolt_ignore",
    "dolt_log",
    "dolt_rebase",
    "dolt_schema_diff",
    "dolt_schemas",
    "dolt_status",
    "dolt_tags",
];

/// Prefixes of the tables about the versions of one table. The name of that table follows.
const VERSION_PREFIXES: &[&str] =
    &["dolt_at_", "dolt_blame_", "dolt_conflicts_", "dolt_constraint_violations_", "dolt_diff_", "dolt_history_"];

/// Version tables whose rows writers may change, by name and by prefix of a table's name.
const CHANGEABLE: &[&str] = &["dolt_ignore", "dolt_rebase"];
const CHANGEABLE_PREFIXES: &[&str] = &["dolt_conflicts_", "dolt_constraint_violations_"];

/// Pragmas that return information, some of them about a name or up to a number.
const ASKING: &[&str] = &[
    "collation_list",
    "compile_options",
    "foreign_key_check",
    "foreign_key_list",
    "function_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "integrity_check",
    "module_list",
    "pragma_list",
    "quick_check",
    "table_info",
    "table_list",
    "table_xinfo",
];

/// Pragmas that change the session.
const OF_THE_SESSION: &[&str] = &["defer_foreign_keys", "foreign_keys", "recursive_triggers"];

/// Pragmas that change the file.
const OF_THE_FILE: &[&str] = &["application_id", "user_version"];

/// Pragmas that may be read but not set; `rtree` also reads `page_size`, see [`pragma`]. `fts5` reads `data_version`.
const FIXED: &[&str] =
    &["busy_timeout", "data_version", "database_list", "encoding", "journal_mode", "schema_version", "synchronous"];

pub(super) fn check(
    power: SqlPower,
    defines: bool,
    seen: &mut StatementEffects,
    modules: &HashSet<String>,
    context: &AuthContext<'_>,
) -> Result<(), GuardRefusal> {
    // Names arrive in the spelling of the user.
    match context.action {
        AuthAction::Select
        | AuthAction::Recursive
        | AuthAction::Transaction { .. }
        | AuthAction::Savepoint { .. }
        | AuthAction::Analyze { .. } => Ok(()),
        AuthAction::Function { function_name } => function(power, seen, &function_name.to_ascii_lowercase()),
        AuthAction::Read { table_name, .. } => {
            here(context)?;
            if readable(&table_name.to_ascii_lowercase(), modules) { Ok(()) } else { Err(GuardRefusal::Never) }
        }
        AuthAction::Pragma { pragma_name, pragma_value } => {
            pragma(defines, seen, &pragma_name.to_ascii_lowercase(), pragma_value)
        }
        _ => change(power, defines, seen, modules, context),
    }
}

fn function(power: SqlPower, seen: &mut StatementEffects, name: &str) -> Result<(), GuardRefusal> {
    if STANDING.contains(&name) {
        return Ok(());
    }
    let needed = if CHANGING.contains(&name) { SqlPower::Write } else { SqlPower::Admin };
    if needed == SqlPower::Write || name == "dolt_gc" {
        if power < needed {
            return Err(GuardRefusal::Never);
        }
        seen.commands = true;
        seen.collects |= name == "dolt_gc";
        seen.leaves_branch |= MOVING.contains(&name);
        return Ok(());
    }
    match lists::function(name) {
        Function::Steady | Function::Volatile => Ok(()),
        Function::InsideAlter if power >= SqlPower::Write => Ok(()),
        Function::InsideAlter | Function::Elsewhere | Function::Refused => Err(GuardRefusal::Never),
    }
}

fn readable(name: &str, modules: &HashSet<String>) -> bool {
    if name.starts_with("dolt_") {
        return VERSION_TABLES.contains(&name) || VERSION_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    }
    if name == "sqlite_temp_master" || name == "sqlite_temp_schema" {
        return true;
    }
    if let Some(asked) = name.strip_prefix("pragma_") {
        return ASKING.contains(&asked);
    }
    lists::table(name, modules.contains(name)) != TableAccess::Refused
}

fn pragma(defines: bool, seen: &mut StatementEffects, name: &str, value: Option<&str>) -> Result<(), GuardRefusal> {
    if defines && name == "page_size" && value.is_none() {
        // Read by `rtree` while it creates a table. A user's own pragma defines nothing.
        return Ok(());
    }
    if ASKING.contains(&name) || (value.is_none() && (FIXED.contains(&name) || OF_THE_FILE.contains(&name))) {
        seen.asks_pragma = true;
        seen.lists_files |= name == "database_list";
        return Ok(());
    }
    if OF_THE_SESSION.contains(&name) {
        seen.asks_pragma = true;
        seen.changes_session |= value.is_some();
        return Ok(());
    }
    if OF_THE_FILE.contains(&name) { Ok(()) } else { Err(GuardRefusal::Never) }
}

/// Checks the actions that change something. Readers may pass this check: their connection is read-only and refuses the
/// write itself, with the error that clients expect.
fn change(
    power: SqlPower,
    defines: bool,
    seen: &mut StatementEffects,
    modules: &HashSet<String>,
    context: &AuthContext<'_>,
) -> Result<(), GuardRefusal> {
    seen.drops |= is_drop(&context.action);
    let (table, temporary) = match context.action {
        AuthAction::Insert { table_name } => {
            seen.inserts = true;
            (table_name, false)
        }
        AuthAction::Delete { table_name }
        | AuthAction::Update { table_name, .. }
        | AuthAction::CreateTable { table_name }
        | AuthAction::DropTable { table_name }
        | AuthAction::CreateIndex { table_name, .. }
        | AuthAction::DropIndex { table_name, .. }
        | AuthAction::CreateTrigger { table_name, .. }
        | AuthAction::DropTrigger { table_name, .. } => (table_name, false),
        AuthAction::CreateView { view_name } | AuthAction::DropView { view_name } => (view_name, false),
        AuthAction::CreateTempTable { table_name }
        | AuthAction::DropTempTable { table_name }
        | AuthAction::CreateTempIndex { table_name, .. }
        | AuthAction::DropTempIndex { table_name, .. }
        | AuthAction::CreateTempTrigger { table_name, .. }
        | AuthAction::DropTempTrigger { table_name, .. } => (table_name, true),
        AuthAction::CreateTempView { view_name } | AuthAction::DropTempView { view_name } => (view_name, true),
        AuthAction::AlterTable { database_name: "main" | "temp", table_name } => {
            return if changeable(table_name, defines, modules) { Ok(()) } else { Err(GuardRefusal::Never) };
        }
        AuthAction::CreateVtable { table_name, module_name } | AuthAction::DropVtable { table_name, module_name } => {
            if !lists::creatable(&module_name.to_ascii_lowercase()) {
                return Err(GuardRefusal::Never);
            }
            (table_name, false)
        }
        AuthAction::Reindex { index_name } => (index_name, false),
        _ => return Err(GuardRefusal::Never),
    };
    here(context)?;
    seen.changes_session |= temporary || context.database_name == Some("temp");
    if power == SqlPower::Read || changeable(table, defines, modules) { Ok(()) } else { Err(GuardRefusal::Never) }
}

fn is_drop(action: &AuthAction<'_>) -> bool {
    matches!(
        action,
        AuthAction::DropTable { .. }
            | AuthAction::DropIndex { .. }
            | AuthAction::DropView { .. }
            | AuthAction::DropTrigger { .. }
            | AuthAction::DropTempTable { .. }
            | AuthAction::DropTempIndex { .. }
            | AuthAction::DropTempView { .. }
            | AuthAction::DropTempTrigger { .. }
            | AuthAction::DropVtable { .. }
    )
}

fn here(context: &AuthContext<'_>) -> Result<(), GuardRefusal> {
    match context.database_name {
        None | Some("main" | "temp") => Ok(()),
        Some(_) => Err(GuardRefusal::Never),
    }
}

fn changeable(table: &str, defines: bool, modules: &HashSet<String>) -> bool {
    let name = table.to_ascii_lowercase();
    if name.starts_with("sqlite_") {
        // Changed only by the engine, while it executes a definition.
        return defines;
    }
    if name.starts_with("dolt_") {
        return CHANGEABLE.contains(&&*name) || CHANGEABLE_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    }
    lists::table(&name, modules.contains(&name)) == TableAccess::Plain
}
