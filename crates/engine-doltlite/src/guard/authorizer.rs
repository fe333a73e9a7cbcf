//! Decides, while a statement is prepared, whether each of its actions is allowed.

use std::collections::{BTreeSet, HashSet};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

use super::lists::{self, Function, TableAccess};
use super::{GuardMode, GuardRefusal, StatementEffects, session};

pub(super) fn decide(
    mode: GuardMode,
    seen: &mut StatementEffects,
    wrapped: Option<&HashSet<String>>,
    wanted: &mut BTreeSet<String>,
    modules: &HashSet<String>,
    context: &AuthContext<'_>,
) -> Authorization {
    if mode == GuardMode::Trusted {
        return Authorization::Allow;
    }
    let checked = match mode {
        GuardMode::Session { power, defines } => session::check(power, defines, seen, modules, context),
        _ => check(mode, seen, modules, context).and_then(|()| unless_unwrapped(seen, wrapped, wanted, context)),
    };
    match checked {
        Ok(()) => Authorization::Allow,
        Err(GuardRefusal::Unwrapped) => Authorization::Deny,
        Err(refusal) => {
            seen.refusal.get_or_insert(refusal);
            Authorization::Deny
        }
    }
}

fn check(
    mode: GuardMode,
    seen: &mut StatementEffects,
    modules: &HashSet<String>,
    context: &AuthContext<'_>,
) -> Result<(), GuardRefusal> {
    let ours = |name: &str| GuardRefusal::Elsewhere(name.to_owned());
    // Names arrive in the spelling of the user.
    match context.action {
        AuthAction::Select | AuthAction::Recursive => Ok(()),
        AuthAction::Function { function_name } => match lists::function(&function_name.to_ascii_lowercase()) {
            Function::Steady => Ok(()),
            Function::Volatile => {
                seen.volatile = true;
                Ok(())
            }
            Function::InsideAlter if mode == GuardMode::Writer => Ok(()),
            Function::Elsewhere => Err(ours("active_branch()")),
            Function::InsideAlter | Function::Refused => Err(GuardRefusal::Never),
        },
        AuthAction::Read { table_name, .. } => {
            let name = table_name.to_ascii_lowercase();
            if mode == GuardMode::Writer && context.database_name == Some("temp") && name == "sqlite_temp_master" {
                // ALTER TABLE looks for triggers and views of the connection; there are none.
                return Ok(());
            }
            in_main(context)?;
            match lists::table(&name, modules.contains(&name)) {
                TableAccess::Plain | TableAccess::System | TableAccess::History => Ok(()),
                TableAccess::Elsewhere => Err(ours(&name)),
                TableAccess::Refused => Err(GuardRefusal::Never),
            }
        }
        AuthAction::Pragma { pragma_name, pragma_value } => {
            if lists::pragma(&pragma_name.to_ascii_lowercase(), pragma_value) {
                Ok(())
            } else {
                Err(GuardRefusal::Never)
            }
        }
        _ => write(mode, modules, context),
    }
}

/// Refuses tables and functions that take commits until their wrappers are installed, and records the wrappers that are
/// needed.
fn unless_unwrapped(
    seen: &mut StatementEffects,
    wrapped: Option<&HashSet<String>>,
    wanted: &mut BTreeSet<String>,
    context: &AuthContext<'_>,
) -> Result<(), GuardRefusal> {
    let asks_columns = match context.action {
        AuthAction::Read { table_name, .. } => lists::shows_columns(table_name),
        AuthAction::Pragma { pragma_name, .. } => lists::shows_columns(&format!("pragma_{pragma_name}")),
        _ => false,
    };
    seen.asks_columns |= asks_columns;
    let (name, takes) = match context.action {
        AuthAction::Function { function_name } => {
            let name = function_name.to_ascii_lowercase();
            let takes = lists::function_takes_commits(&name);
            (name, takes)
        }
        AuthAction::Read { table_name, .. } => {
            let name = table_name.to_ascii_lowercase();
            let takes = lists::table_takes_commits(&name);
            if let Some(view) = context.accessor.filter(|_| takes) {
                seen.views.insert(view.to_ascii_lowercase());
            }
            (name, takes)
        }
        // The columns of such a table also come from a commit.
        AuthAction::Pragma { pragma_value: Some(value), .. } => {
            let name = value.to_ascii_lowercase();
            let takes = lists::table_takes_commits(&name) && !lists::is_fixed_table_of_commits(&name);
            (name, takes)
        }
        _ => return Ok(()),
    };
    if !takes {
        return Ok(());
    }
    seen.history = true;
    match wrapped {
        Some(wrapped) if !wrapped.contains(&name) => {
            wanted.insert(name);
            Err(GuardRefusal::Unwrapped)
        }
        _ => Ok(()),
    }
}

/// Checks the actions that change something.
fn write(mode: GuardMode, modules: &HashSet<String>, context: &AuthContext<'_>) -> Result<(), GuardRefusal> {
    let changed = match context.action {
        AuthAction::Insert { table_name }
        | AuthAction::Delete { table_name }
        | AuthAction::CreateTable { table_name }
        | AuthAction::DropTable { table_name }
        | AuthAction::CreateIndex { table_name, .. }
        | AuthAction::DropIndex { table_name, .. }
        | AuthAction::CreateTrigger { table_name, .. }
        | AuthAction::DropTrigger { table_name, .. } => table_name,
        AuthAction::CreateView { view_name } | AuthAction::DropView { view_name } => view_name,
        AuthAction::Update { table_name, .. } => {
            if mode == GuardMode::Writer && table_name == "sqlite_temp_master" {
                return Ok(());
            }
            table_name
        }
        AuthAction::AlterTable { database_name, table_name } => {
            // For DROP COLUMN, the context's database is the name of the column.
            return match (mode, database_name) {
                (GuardMode::Writer, "main") => changeable(table_name, modules),
                (GuardMode::Writer, _) => Err(GuardRefusal::Never),
                _ => Err(GuardRefusal::Write),
            };
        }
        AuthAction::CreateVtable { table_name, module_name } | AuthAction::DropVtable { table_name, module_name } => {
            if !lists::creatable(&module_name.to_ascii_lowercase()) {
                return Err(GuardRefusal::Never);
            }
            table_name
        }
        // CREATE INDEX causes this action too. The statement REINDEX is refused by its first word.
        AuthAction::Reindex { index_name } => index_name,
        AuthAction::Analyze { .. } => {
            return Err(if mode == GuardMode::Reader { GuardRefusal::Write } else { GuardRefusal::Never });
        }
        _ => return Err(GuardRefusal::Never),
    };
    if mode != GuardMode::Writer {
        return Err(GuardRefusal::Write);
    }
    in_main(context)?;
    changeable(changed, modules)
}

fn in_main(context: &AuthContext<'_>) -> Result<(), GuardRefusal> {
    match context.database_name {
        None | Some("main") => Ok(()),
        Some(_) => Err(GuardRefusal::Never),
    }
}

fn changeable(table: &str, modules: &HashSet<String>) -> Result<(), GuardRefusal> {
    let name = table.to_ascii_lowercase();
    match lists::table(&name, modules.contains(&name)) {
        // The engine itself refuses manual changes of its schema table.
        TableAccess::Plain | TableAccess::System => Ok(()),
        // The index of a primary key is dropped with its table.
        TableAccess::Refused if name.starts_with("sqlite_autoindex_") => Ok(()),
        TableAccess::History | TableAccess::Elsewhere | TableAccess::Refused => Err(GuardRefusal::Never),
    }
}
