//! Binds arguments to the parameters of a statement. Every parameter needs an argument.

use branchyard_domain::entities::Cell;
use branchyard_domain::ports::{Arguments, SessionError};
use rusqlite::Statement;

use super::codes;
use crate::cells::Param;

const MARKS: [char; 3] = [':', '@', '$'];

pub(super) fn bind(statement: &mut Statement<'_>, arguments: &Arguments) -> Result<(), SessionError> {
    let parameters = statement.parameter_count();
    match arguments {
        Arguments::None => {}
        Arguments::Positional(values) if values.len() > parameters => {
            return Err(SessionError::Arguments(format!(
                "the statement has {parameters} parameters, but {} arguments were given",
                values.len()
            )));
        }
        Arguments::Positional(_) => {}
        Arguments::Named(values) => {
            let names: Vec<&str> = (1..=parameters).filter_map(|at| statement.parameter_name(at)).map(bare).collect();
            if let Some((name, _)) = values.iter().find(|(name, _)| !names.contains(&bare(name))) {
                return Err(SessionError::Arguments(format!("the statement has no parameter '{name}'")));
            }
        }
    }
    for at in 1..=parameters {
        let value = value(statement, arguments, at)?;
        statement.raw_bind_parameter(at, Param(value)).map_err(|error| codes::failure(&error, false))?;
    }
    Ok(())
}

fn value<'a>(statement: &Statement<'_>, arguments: &'a Arguments, at: usize) -> Result<&'a Cell, SessionError> {
    let name = statement.parameter_name(at);
    let found = match arguments {
        Arguments::None => None,
        Arguments::Positional(values) => values.get(at - 1),
        Arguments::Named(values) => {
            name.and_then(|name| values.iter().find(|(given, _)| bare(given) == bare(name))).map(|(_, value)| value)
        }
    };
    found.ok_or_else(|| match name {
        Some(name) => SessionError::Arguments(format!("no argument for the parameter {name}")),
        None => SessionError::Arguments(format!("no argument for parameter {at}")),
    })
}

fn bare(name: &str) -> &str {
    name.strip_prefix(MARKS).unwrap_or(name)
}
