//! Rebooting, shutting down, starting and deleting a deployment. Each action asks for confirmation.

use askama::Template;
use branchyard_deployments::access::Manage;
use branchyard_deployments::entities::{Backup, RunState};
use branchyard_deployments::errors::DeploymentError;
use branchyard_deployments::values::{BackupId, InstanceId};
use branchyard_deployments::{DeploymentView, NewInstance};
use branchyard_http_common::audit;

use super::choices::{self, Choices, Chosen, Price};
use super::confirm;
use crate::deployment::{self, DeploymentFrame, DeploymentTab};
use crate::error_page::PageError;
use crate::format;
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::money;
use crate::page_context::{PageContext, PageResult};
use crate::pages::confirm::ConfirmQuestion;

fn reboot_question(frame: &DeploymentFrame) -> ConfirmQuestion {
    ConfirmQuestion {
        title: format!("Reboot {}/{}?", frame.owner, frame.name),
        text: "Running requests get ten seconds to finish, open transactions are rolled back, and the deployment is unavailable \
               for a few seconds. Data, URL and price don't change."
            .to_owned(),
        button: "Reboot",
        back: frame.path.clone(),
        hidden: Vec::new(),
    }
}

/// `GET …/instances/{instance}/reboot`
pub(crate) async fn ask_reboot(visit: PageContext) -> PageResult {
    let (access, _, frame) = deployment::open::<Manage>(&visit, DeploymentTab::Overview).await?;
    let id = InstanceId::parse(&visit.segment("instance")).map_err(|_| PageError::nothing_here())?;
    let instances = visit.read(move |hub| hub.deployments().instances(&access)).await?;
    if !instances.iter().any(|instance| instance.id == id) {
        return Err(PageError::nothing_here());
    }
    let question = reboot_question(&frame);
    confirm::ask(&visit, frame, question)
}

/// `POST …/instances/{instance}/reboot`
pub(crate) async fn reboot(posted: FormPost) -> PageResult {
    let (access, _, frame) = deployment::open::<Manage>(&posted, DeploymentTab::Overview).await?;
    let id = posted.segment("instance");
    match posted.write(move |hub| hub.deployments().reboot(&access, &id, None)).await {
        Ok(_) => posted.redirect_saying(&format!("{}/operations", frame.path), "Reboot queued."),
        Err(failure) => {
            let form = Filled::default().refused(failure, &[])?;
            let question = reboot_question(&frame);
            confirm::ask_again(&posted, frame, question, form)
        }
    }
}

fn shutdown_question(frame: &DeploymentFrame, view: &DeploymentView) -> ConfirmQuestion {
    ConfirmQuestion {
        title: format!("Shut down {}/{}?", frame.owner, frame.name),
        text: format!(
            "Clients are disconnected, a final backup is created and verified, then the data is removed. Charges stop; they are \
             currently {} a month. To restore the deployment, start it from that backup.",
            money::dollars(view.hourly_cost.per_month())
        ),
        button: "Shut down",
        back: format!("{}/settings", frame.path),
        hidden: Vec::new(),
    }
}

/// `GET …/shutdown`
pub(crate) async fn ask_shutdown(visit: PageContext) -> PageResult {
    let (_, view, frame) = deployment::open::<Manage>(&visit, DeploymentTab::Settings).await?;
    let question = shutdown_question(&frame, &view);
    confirm::ask(&visit, frame, question)
}

/// `POST …/shutdown`
pub(crate) async fn shutdown(posted: FormPost) -> PageResult {
    let (access, view, frame) = deployment::open::<Manage>(&posted, DeploymentTab::Settings).await?;
    match posted.write_always(move |hub| hub.deployments().disable(&access, None)).await {
        Ok(_) => posted.redirect_saying(&frame.path, "Shutting down. A final backup is created first."),
        Err(failure) => {
            let form = Filled::default().refused(failure, &[])?;
            let question = shutdown_question(&frame, &view);
            confirm::ask_again(&posted, frame, question, form)
        }
    }
}

/// The fields of the form that starts a deployment again.
const START_FIELDS: &[&str] = &["backup_id", "instance_type_id", "volume_type_id", "volume_size_gb"];

#[derive(Template)]
#[template(path = "deployments/start.html")]
struct StartPage {
    shell: LayoutContext,
    frame: DeploymentFrame,
    form: Filled,
    choices: Choices,
    backups: Vec<(String, String)>,
    may_start: bool,
}

#[derive(Template)]
#[template(path = "deployments/start_agree.html")]
struct StartAgreePage {
    shell: LayoutContext,
    frame: DeploymentFrame,
    form: Filled,
    hidden: Vec<(&'static str, String)>,
    price: Price,
    begins: String,
}

fn label(backup: &Backup) -> String {
    let size = format::size(backup.size_bytes());
    format!("Backup {}, {size}", backup.id)
}

async fn startable(visit: &PageContext, form: Filled, price: Option<Price>) -> Result<StartPage, PageError> {
    let (access, view, frame) = deployment::open::<Manage>(visit, DeploymentTab::Settings).await?;
    let found = visit.read(move |hub| hub.deployments().backups(&access)).await?;
    let mut backups: Vec<(String, String)> =
        found.iter().map(|backup| (backup.id.to_string(), label(backup))).collect();
    backups.push(("empty".to_owned(), "One empty database; existing data stays in its backups".to_owned()));
    let mut form = form;
    if form.value("backup_id").is_empty()
        && let Some((first, _)) = backups.first()
    {
        let first = first.clone();
        form = form.with("backup_id", first);
    }
    let size = &view.primary.size;
    for (name, value) in [("instance_type_id", &size.type_id), ("volume_type_id", &size.volume_type_id)] {
        if form.value(name).is_empty() {
            form = form.with(name, value.clone());
        }
    }
    if form.value("volume_size_gb").is_empty() && !form.has_faults() {
        form = form.with("volume_size_gb", size.volume_gb.to_string());
    }
    let place = (view.deployment.cloud.as_str(), view.deployment.zone.as_str());
    let (mut choices, form) = choices::offer(visit, form, Some(place), price);
    if choices.price.is_none() && !form.has_faults() {
        choices.price = choices::price_shown(visit, &form, Some(place))?;
    }
    let may_start = visit.state.services.deployments().may_start();
    Ok(StartPage { shell: LayoutContext::default(), frame, form, choices, backups, may_start })
}

/// `GET …/start?backup_id=…`
pub(crate) async fn ask_start(visit: PageContext) -> PageResult {
    let form = Filled::default().with("backup_id", visit.parameter("backup_id").unwrap_or_default());
    let page = startable(&visit, form, None).await?;
    if page.frame.state != RunState::Stopped {
        let path = page.frame.path.clone();
        return visit.redirect_saying(&path, "This deployment isn't stopped.");
    }
    visit.page(|shell| StartPage { shell, ..page })
}

/// `POST …/start`: updates the price, asks for confirmation, or starts the deployment, depending on the button pressed.
pub(crate) async fn start(posted: FormPost) -> PageResult {
    let (access, view, frame) = deployment::open::<Manage>(&posted, DeploymentTab::Settings).await?;
    let place = (view.deployment.cloud.as_str(), view.deployment.zone.as_str());
    let mut form = posted.form.again();
    let chosen = Chosen::read(&posted.form, &mut form, Some(place));
    let price = match &chosen {
        Some(chosen) => chosen.price(&posted, &mut form)?,
        None => None,
    };
    let step = posted.form.line("step");
    if step == "price" {
        let page = startable(&posted, form, price).await?;
        return posted.page(|shell| StartPage { shell, ..page });
    }
    let backup = match posted.form.line("backup_id").as_str() {
        "empty" => Some(None),
        text => form.checked("backup_id", BackupId::parse(text)).map(Some),
    };
    let (Some(chosen), Some(backup), Some(price), false) = (chosen, backup, price, form.has_faults()) else {
        let page = startable(&posted, form, None).await?;
        return posted.refuse(|shell| StartPage { shell, ..page });
    };
    if step != "start" || posted.form.line("agreed") != price.agreed {
        if step == "start" {
            form.fault("", "The price has changed. Review it before you confirm.");
        }
        let hidden = START_FIELDS.iter().map(|name| (*name, form.value(name).to_owned())).collect();
        let begins = match backup {
            Some(id) => format!("Backup {id}"),
            None => "One empty database".to_owned(),
        };
        return posted.page(|shell| StartAgreePage { shell, frame, form, hidden, price, begins });
    }
    let wanted = NewInstance {
        instance_type: chosen.instance_type,
        volume_type: chosen.volume_type,
        volume_gb: chosen.volume_gb,
        backup,
    };
    match posted.write(move |hub| hub.deployments().start(&access, &wanted, None)).await {
        Ok(_) => posted.redirect_saying(&frame.path, "Starting…"),
        Err(failure) => {
            let page = startable(&posted, form.refused(failure, START_FIELDS)?, Some(price)).await?;
            posted.refuse(|shell| StartPage { shell, ..page })
        }
    }
}

#[derive(Template)]
#[template(path = "deployments/deletion.html")]
struct DeletionPage {
    shell: LayoutContext,
    frame: DeploymentFrame,
    form: Filled,
}

/// `GET …/delete`
pub(crate) async fn ask_delete(visit: PageContext) -> PageResult {
    let (_, _, frame) = deployment::open::<Manage>(&visit, DeploymentTab::Settings).await?;
    visit.page(|shell| DeletionPage { shell, frame, form: Filled::default() })
}

/// `POST …/delete`: deletes the deployment after the user typed its name.
pub(crate) async fn delete(posted: FormPost) -> PageResult {
    let (access, _, frame) = deployment::open::<Manage>(&posted, DeploymentTab::Settings).await?;
    let named = format!("{}/{}", frame.owner, frame.name);
    posted.confirmed(&format!("/deployments/{named}/delete"))?;
    let mut form = posted.form.again();
    if posted.form.line("name") != named {
        form.fault("name", format!("Nothing was deleted. Type {named} to confirm."));
    } else {
        let deleted =
            posted.write_always(move |hub| -> Result<_, DeploymentError> { hub.deployments().delete(&access, None) });
        match deleted.await {
            Ok(_) => {
                let said = format!("Deleting {named}. Its costs stay in your usage reports.");
                return posted.redirect_saying(&deployment::path_of_owner(&frame.owner), &said);
            }
            Err(failure) => form = form.refused(failure, &[])?,
        }
    }
    posted.refuse(|shell| DeletionPage { shell, frame, form })
}

#[derive(Template)]
#[template(path = "deployments/discard.html")]
struct DiscardPage {
    shell: LayoutContext,
    frame: DeploymentFrame,
    form: Filled,
}

/// `GET …/discard`
pub(crate) async fn ask_discard(visit: PageContext) -> PageResult {
    let (_, _, frame) = deployment::open::<Manage>(&visit, DeploymentTab::Settings).await?;
    visit.page(|shell| DiscardPage { shell, frame, form: Filled::default() })
}

/// `POST …/discard`: shuts the deployment down without a final backup after the user typed its name.
pub(crate) async fn discard(posted: FormPost) -> PageResult {
    let (access, view, frame) = deployment::open::<Manage>(&posted, DeploymentTab::Settings).await?;
    posted.confirmed(&format!("/deployments/{}/{}/discard", frame.owner, frame.name))?;
    let mut form = posted.form.again();
    let confirm = posted.form.line("name");
    if confirm == frame.name {
        let by = access.who().name.clone();
        match posted.write_always(move |hub| hub.deployments().discard(&access, &confirm, None)).await {
            Ok(_) => {
                audit::data_discarded(&by, &view.deployment.locator);
                return posted.redirect_saying(&frame.path, "Shutting down. The data is removed without a backup.");
            }
            Err(failure) => form = form.refused(failure, &[])?,
        }
    } else {
        form.fault("name", format!("Nothing was discarded. Type {} to confirm.", frame.name));
    }
    posted.refuse(|shell| DiscardPage { shell, frame, form })
}
