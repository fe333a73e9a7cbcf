//! The commands `user create`, `user reset-password`, and `org create`.

use std::io::Read as _;

use anyhow::Context as _;
use branchyard_auth::PlainPassword;
use branchyard_domain::Hub;
use branchyard_domain::usecases::{NewOrganization, NewUser};
use branchyard_domain::values::{EmailAddress, OwnerName};

use super::print;

pub(super) fn create_user(
    hub: &Hub,
    name: &str,
    email: &str,
    password_stdin: bool,
    is_admin: bool,
) -> anyhow::Result<()> {
    let name = OwnerName::parse(name)?;
    let email = EmailAddress::parse(email)?.into_string();
    let password = if password_stdin { Some(read_password()?) } else { None };
    let user = hub.people().create_user(NewUser { name, email, display_name: None, password, is_admin })?;
    print(format!("created user {}", user.name))
}

pub(super) fn reset_password(hub: &Hub, name: &str, delete_tokens: bool) -> anyhow::Result<()> {
    let user = hub.people().find_user(&OwnerName::parse(name)?)?;
    let deleted = hub.sessions().reset_password(&user, &read_password()?, delete_tokens)?;
    let tokens = if delete_tokens { format!("; tokens deleted: {deleted}") } else { String::new() };
    print(format!("changed the password of {} and ended all sessions{tokens}", user.name))
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
    let password = PlainPassword::choose(text.trim_end_matches(['\r', '\n']).to_owned())?;
    Ok(password.hash(&mut rand::rng())?)
}
