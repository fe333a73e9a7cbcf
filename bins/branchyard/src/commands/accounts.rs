//! `user create`, `org create`.

use std::io::Read as _;

use anyhow::{Context as _, bail};
use branchyard_auth::PlainPassword;
use branchyard_domain::Hub;
use branchyard_domain::usecases::{NewOrganization, NewUser};
use branchyard_domain::values::OwnerName;

use super::print;

pub(super) fn create_user(
    hub: &Hub,
    name: &str,
    email: String,
    password_stdin: bool,
    is_admin: bool,
) -> anyhow::Result<()> {
    let name = OwnerName::parse(name)?;
    if !looks_like_email(&email) {
        bail!("'{email}' is not an email address");
    }
    let password = if password_stdin { Some(read_password()?) } else { None };
    let user = hub.people().create_user(NewUser { name, email, display_name: None, password, is_admin })?;
    print(format!("created user {}", user.name))
}

pub(super) fn create_organization(hub: &Hub, name: &str, owner: &str) -> anyhow::Result<()> {
    let owner = hub.people().find_user(&OwnerName::parse(owner)?)?;
    let wanted = NewOrganization::named(OwnerName::parse(name)?);
    let created = hub.organizations().create(&owner, wanted, None)?;
    print(format!("created organization {}, owned by {}", created.organization.name, owner.name))
}

fn read_password() -> anyhow::Result<branchyard_auth::PasswordHash> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("cannot read the password from standard input")?;
    let password = PlainPassword::new(text.trim_end_matches(['\r', '\n']).to_owned())?;
    Ok(password.hash(&mut rand::rng())?)
}

/// Only what commits need: one @ with something on both sides, and nothing that would break a signature line.
fn looks_like_email(text: &str) -> bool {
    let broken = |c: char| c.is_whitespace() || c.is_control() || c == '<' || c == '>';
    match text.split_once('@') {
        Some((name, host)) => {
            !name.is_empty() && !host.is_empty() && !host.contains('@') && !text.contains(broken) && text.len() <= 254
        }
        None => false,
    }
}
