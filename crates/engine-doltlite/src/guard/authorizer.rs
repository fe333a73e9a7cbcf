//! Decides, while a statement is prepared, whether each thing it does is allowed.

use std::collections::{BTreeSet, HashSet};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

use super::lists::{self, Function, Table};
use super::{Mode, Refusal, Seen, session};

pub(super) fn decide(
    mode: Mode,
    seen: &mut Seen,
    wrapped: Option<&HashSet<String>>,
    wanted: &mut BTreeSet<String>,
    modules: &HashSet<String>,
    context: &AuthContext<'_>,
) -> Authorization {
    if mode == Mode::Trusted {
        return Authorization::Allow;
    }
    let checked = match mode {
        Mode::Session { power, defines } => session::check(power, defines, seen, modules, context),
        _ => check(mode, seen, modules, context).and_then(|()| unless_unwrapped(seen, wrapped, wanted, context)),
    };
    match checked {
        Ok(()) => Authorization::Allow,
        Err(Refusal::Unwrapped) => Authorization::Deny,
        Err(refusal) => {
            seen.refusal.get_or_insert(refusal);
            Authorization::Deny
        }
    }
}

fn check(mode: Mode, seen: &mut Seen, modules: &HashSet<String>, context: &AuthContext<'_>) -> Result<(), Refusal> {
    let ours = |name: &str| Refusal::Elsewhere(name.to_owned());
    // Names arrive as the user typed them.
    match context.action {
        AuthAction::Select | AuthAction::Recursive => Ok(()),
        AuthAction::Function { function_name } => match lists::function(&function_name.to_ascii_lowercase()) {
            Function::Steady => Ok(()),
            Function::Volatile => {
                seen.volatile = true;
                Ok(())
            }
            Function::InsideAlter if mode == Mode::Writer => Ok(()),
            Function::Elsewhere => Err(ours("active_branch()")),
            Function::InsideAlter | Function::Refused => Err(Refusal::Never),
        },
        AuthAction::Read { table_name, .. } => {
            let name = table_name.to_ascii_lowercase();
            if mode == Mode::Writer && context.database_name == Some("temp") && name == "sqlite_temp_master" {
                // ALTER looks for triggers and views of the connection; there are none.
                return Ok(());
            }
            in_main(context)?;
            match lists::table(&name, modules.contains(&name)) {
                Table::Plain | Table::System | Table::History => Ok(()),
                Table::Elsewhere => Err(ours(&name)),
                Table::Refused => Err(Refusal::Never),
            }
        }
        AuthAction::Pragma { pragma_name, pragma_value } => {
            if lists::pragma(&pragma_name.to_ascii_lowercase(), pragma_value) { Ok(()) } else { Err(Refusal::Never) }
        }
        _ => write(mode, modules, context),
    }
}

/// What takes commits is used only through its wrapper.
fn unless_unwrapped(
    seen: &mut Seen,
    wrapped: Option<&HashSet<String>>,
    wanted: &mut BTreeSet<String>,
    context: &AuthContext<'_>,
) -> Result<(), Refusal> {
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
        // The columns of such a table are those of some commit, too.
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
            Err(Refusal::Unwrapped)
        }
        _ => Ok(()),
    }
}

/// Everything that changes something.
fn write(mode: Mode, modules: &HashSet<String>, context: &AuthContext<'_>) -> Result<(), Refusal> {
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
            if mode == Mode::Writer && table_name == "sqlite_temp_master" {
                return Ok(());
            }
            table_name
        }
        AuthAction::AlterTable { database_name, table_name } => {
            // For DROP COLUMN the context's database is the name of the column.
            return match (mode, database_name) {
                (Mode::Writer, "main") => changeable(table_name, modules),
                (Mode::Writer, _) => Err(Refusal::Never),
                _ => Err(Refusal::Write),
            };
        }
        AuthAction::CreateVtable { table_name, module_name } | AuthAction::DropVtable { table_name, module_name } => {
            if !lists::creatable(&module_name.to_ascii_lowercase()) {
                return Err(Refusal::Never);
            }
            table_name
        }
        // CREATE INDEX asks for it too; the statement REINDEX is known by its first word.
        AuthAction::Reindex { index_name } => index_name,
        AuthAction::Analyze { .. } => return Err(if mode == Mode::Reader { Refusal::Write } else { Refusal::Never }),
        _ => return Err(Refusal::Never),
    };
    if mode != Mode::Writer {
        return Err(Refusal::Write);
    }
    in_main(context)?;
    changeable(changed, modules)
}

fn in_main(context: &AuthContext<'_>) -> Result<(), Refusal> {
    match context.database_name {
        None | Some("main") => Ok(()),
        Some(_) => Err(Refusal::Never),
    }
}

fn changeable(table: &str, modules: &HashSet<String>) -> Result<(), Refusal> {
    let name = table.to_ascii_lowercase();
    match lists::table(&name, modules.contains(&name)) {
        // The engine itself lets nobody change its schema table by hand.
        Table::Plain | Table::System => Ok(()),
        // An index of a primary key, dropped with its table.
        Table::Refused if name.starts_with("sqlite_autoindex_") => Ok(()),
        Table::History | Table::Elsewhere | Table::Refused => Err(Refusal::Never),
    }
}
