//! Reads the form of a new database, and creates it.

use branchyard_domain::Hub;
use branchyard_domain::entities::{DatabaseLocator, User, Visibility};
use branchyard_domain::errors::{DatabaseError, MirrorError, PortError};
use branchyard_domain::usecases::{NewDatabase, NewMirror};
use branchyard_domain::values::{DatabaseName, Description};

use super::{interval, named_after};
use crate::forms::{Filled, Form};

/// The name that is proposed for a database of sample data.
const SAMPLE: &str = "sample";
/// Names that are tried for a database whose name was proposed: the name, then with a number.
const NAMES: u32 = 20;

/// A checked form.
#[derive(Debug)]
pub(super) struct WantedDatabase {
    owner: String,
    name: DatabaseName,
    /// Whether the name was proposed, so that another one is as good.
    is_proposed: bool,
    description: Description,
    visibility: Visibility,
    mirror_of: Option<NewMirror>,
    /// Whether the database begins with sample data.
    pub(super) has_sample: bool,
}

impl WantedDatabase {
    /// Reads a form, whose errors are recorded in `filled`. `file_name` is the name of the file that the database begins with.
    pub(super) fn read(form: &Form, filled: &mut Filled, file_name: Option<&str>) -> Option<Self> {
        let (typed, has_sample) = (form.line("name"), form.is_checked("sample"));
        let proposed = match file_name {
            Some(file_name) => named_after(file_name),
            None if has_sample => DatabaseName::parse(SAMPLE).ok(),
            None => None,
        };
        let is_proposed = typed.is_empty() && proposed.is_some();
        let name = match proposed.filter(|_| is_proposed) {
            Some(name) => Some(name),
            None => filled.checked("name", DatabaseName::parse(&typed)),
        };
        let description = filled.checked("description", Description::parse(form.line("description")));
        let visibility = match form.line("visibility").as_str() {
            "public" => Some(Visibility::Public),
            "private" => Some(Visibility::Private),
            _ => {
                filled.fault("visibility", "Choose a visibility.");
                None
            }
        };
        let url = form.line("mirror_of");
        let mirror_of = (!url.is_empty()).then(|| NewMirror { url, interval_seconds: interval(form) });
        let beginnings = [file_name.is_some(), has_sample, mirror_of.is_some()];
        if beginnings.into_iter().filter(|is| *is).count() > 1 {
            filled.fault("file", "Choose one beginning: a file, sample data, or a database to mirror.");
            return None;
        }
        let owner = form.line("owner");
        let (name, description, visibility) = (name?, description?, visibility?);
        Some(Self { owner, name, is_proposed, description, visibility, mirror_of, has_sample })
    }
}

/// Creates a database. Otherwise returns the field of the form that is wrong, and why.
pub(super) fn create(
    hub: &Hub,
    user: &User,
    wanted: &WantedDatabase,
) -> Result<Result<DatabaseLocator, (&'static str, String)>, PortError> {
    let tries = if wanted.is_proposed { NAMES } else { 1 };
    let mut taken = String::new();
    for number in 1..=tries {
        let name = match number {
            1 => wanted.name.clone(),
            _ => match DatabaseName::parse(&format!("{}-{number}", wanted.name)) {
                Ok(name) => name,
                Err(_) => break,
            },
        };
        match create_named(hub, user, wanted, name) {
            Ok(locator) => return Ok(Ok(locator)),
            Err(DatabaseError::Port(fault)) => return Err(fault),
            Err(error @ DatabaseError::NameTaken(_)) => taken = error.to_string(),
            Err(error @ DatabaseError::MayNotCreateFor(_)) => return Ok(Err(("owner", error.to_string()))),
            Err(DatabaseError::Mirror(error)) => {
                let why = match *error {
                    MirrorError::Address(why) => why.to_string(),
                    other => other.to_string(),
                };
                return Ok(Err(("mirror_of", why)));
            }
            Err(error) => return Ok(Err(("", error.to_string()))),
        }
    }
    Ok(Err(("name", taken)))
}

fn create_named(
    hub: &Hub,
    user: &User,
    wanted: &WantedDatabase,
    name: DatabaseName,
) -> Result<DatabaseLocator, DatabaseError> {
    let (owner, description) = (wanted.owner.clone(), Some(wanted.description.clone()));
    let new = NewDatabase { owner, name, visibility: wanted.visibility, description, default_branch: None };
    let view = match &wanted.mirror_of {
        None => hub.databases().create(user, new, None)?,
        Some(mirror_of) => hub.databases().create_mirror(user, new, mirror_of, None)?,
    };
    Ok(view.database.locator)
}
