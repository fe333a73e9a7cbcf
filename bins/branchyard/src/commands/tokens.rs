//! The `token create` command.

use branchyard_auth::{PlainToken, TokenExpiry};
use branchyard_domain::Hub;
use branchyard_domain::values::OwnerName;

use super::print;

pub(super) fn create(hub: &Hub, user: &str, name: &str, expires: &str) -> anyhow::Result<()> {
    let expiry = TokenExpiry::parse(expires)?;
    let user = hub.people().find_user(&OwnerName::parse(user)?)?;
    let secret = PlainToken::mint(&mut rand::rng());
    let minted = hub.tokens().create(&user, name, expiry, secret, None)?;
    print(minted.secret.expose())
}
