//! The commands on users, and `org create`.

use std::io::{Read as _, Write as _};
use std::path::Path;

use anyhow::Context as _;
use branchyard_auth::PlainPassword;
use branchyard_domain::Hub;
use branchyard_domain::usecases::{DeleteUser, NewOrganization, NewUser};
use branchyard_domain::values::{EmailAddress, OwnerName};
use branchyard_http_common::personal_data;

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
    let tokens = if delete_tokens { format!("; tokens, keys and grants deleted: {deleted}") } else { String::new() };
    print(format!("changed the password of {} and ended all sessions{tokens}", user.name))
}

pub(super) fn delete_user(hub: &Hub, name: &str, how: DeleteUser, json: bool) -> anyhow::Result<()> {
    let deleted = hub.people().delete_user(&OwnerName::parse(name)?, how)?;
    let databases: Vec<String> = deleted.databases.iter().map(ToString::to_string).collect();
    let organizations: Vec<String> = deleted.organizations.iter().map(ToString::to_string).collect();
    if json {
        return print(serde_json::json!({
            "username": deleted.name.as_str(),
            "databases": databases,
            "organizations": organizations,
            "canceled_operations": deleted.canceled_operations,
            "erased": how.erase,
        }));
    }
    let mut text = format!("deleted user {}", deleted.name);
    if how.erase {
        text.push_str(" and erased the personal data");
    }
    for (what, names) in [("databases", databases), ("organizations", organizations)] {
        if !names.is_empty() {
            text.push_str(&format!("; {what} deleted: {}", names.join(", ")));
        }
    }
    if deleted.canceled_operations > 0 {
        text.push_str(&format!("; operations canceled: {}", deleted.canceled_operations));
    }
    print(text)
}

pub(super) fn export_user(hub: &Hub, name: &str, to: &Path) -> anyhow::Result<()> {
    let user = hub.people().find_user(&OwnerName::parse(name)?)?;
    let data = hub.people().personal_data(user.id)?;
    make_folder(to).with_context(|| {
        format!("cannot create the folder {}; name one that does not exist, in a folder that does", to.display())
    })?;
    for (file, content) in personal_data::files(&data) {
        let path = to.join(file);
        let written = write_file(&path, &serde_json::to_vec_pretty(&content)?);
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    print(format!("wrote the data of {} to {}", user.name, to.display()))
}

/// Creates a folder that only this user of the machine may read.
fn make_folder(path: &Path) -> std::io::Result<()> {
    let mut folder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
    folder.create(path)
}

/// Writes a new file that only this user of the machine may read.
fn write_file(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
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
