//! The webhook of the demo.

use std::sync::Arc;

use branchyard_domain::Hub;
use branchyard_domain::access::{Admin, Caller};
use branchyard_domain::entities::{HookEvent, HookSecret};
use branchyard_domain::usecases::NewHook;
use branchyard_domain::values::OwnerName;

use super::story::{DATABASE, OWNER};

/// Registers a webhook for all events, sends a ping, and returns the webhook's secret. Deletes webhooks of earlier runs with the
/// same URL, because their secrets cannot be shown again.
pub(super) fn register(hub: &Hub, url: &str) -> anyhow::Result<HookSecret> {
    let owner = hub.people().find_user(&OwnerName::parse(OWNER)?)?;
    let access = hub.databases().access::<Admin>(&Caller::User(Arc::new(owner)), OWNER, DATABASE)?;
    let events = [HookEvent::Push, HookEvent::PullRequest, HookEvent::Branch].into();
    let wanted = NewHook { url: hub.hooks().address(&access, url)?, events, active: true };
    let before = hub.hooks().list(&access, None, 100)?;
    let made = hub.hooks().create(&access, wanted, None)?;
    for old in before.into_iter().filter(|old| old.hook.url == made.view.hook.url) {
        hub.hooks().delete(&access, old.hook.id, None)?;
    }
    hub.hooks().ping(&access, made.view.hook.id, None)?;
    Ok(made.secret)
}
