//! `/deployments/{owner}/{deployment}/backups`

use actix_web::HttpResponse;
use actix_web::http::header;
use askama::Template;
use branchyard_deployments::access::{Manage, Observe};
use branchyard_deployments::entities::{Backup, BackupKind};
use branchyard_deployments::errors::DeploymentError;
use branchyard_deployments::ports::{DeploymentOperationFilter, DeploymentOperationKind};
use branchyard_deployments::values::BackupId;
use branchyard_domain::values::Timestamp;
use branchyard_http_common::file_pieces;

use super::confirm;
use super::operations;
use crate::deployment::{self, DeploymentFrame, DeploymentTab};
use crate::error_page::PageError;
use crate::format::{self, Markup};
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::pages::confirm::ConfirmQuestion;

struct DeploymentBackupRow {
    id: String,
    kind: &'static str,
    size: String,
    taken: Markup,
    expires: Markup,
    /// The databases in the backup, each with its branches and their abbreviated head commits.
    databases: Vec<(String, Vec<(String, String)>)>,
}

impl DeploymentBackupRow {
    fn of(backup: &Backup, now: Timestamp) -> Self {
        let heads = |database: &branchyard_deployments::ports::CopiedDatabase| {
            let heads = database.heads.iter().map(|(branch, commit)| (branch.to_string(), format::short(commit)));
            (database.name.to_string(), heads.collect())
        };
        Self {
            id: backup.id.to_string(),
            kind: match backup.kind {
                BackupKind::Nightly => "Nightly",
                BackupKind::Manual => "On demand",
                BackupKind::Final => "At shutdown",
            },
            size: format::size(backup.size_bytes()),
            taken: format::when(backup.id.time(), now),
            expires: format::when(backup.expires_at, now),
            databases: backup.databases.iter().map(heads).collect(),
        }
    }
}

#[derive(Template)]
#[template(path = "deployments/backups.html")]
struct BackupsPage {
    shell: LayoutContext,
    frame: DeploymentFrame,
    rows: Vec<DeploymentBackupRow>,
    /// Whether a backup is in progress.
    is_live: bool,
    failed: Option<String>,
    form: Filled,
}

async fn filled(visit: &PageContext, form: Filled) -> Result<BackupsPage, PageError> {
    let (access, _, frame) = deployment::open::<Observe>(visit, DeploymentTab::Backups).await?;
    let read = visit.read(move |hub| -> Result<_, DeploymentError> {
        let kind = Some(DeploymentOperationKind::CreateBackup);
        let filter = DeploymentOperationFilter { state: None, kind };
        let last = hub.deployments().operations(&access, filter, None, 1)?;
        Ok((hub.deployments().backups(&access)?, last))
    });
    let (backups, last) = read.await?;
    let now = visit.state.services.now();
    let rows = backups.iter().map(|backup| DeploymentBackupRow::of(backup, now)).collect();
    let is_live = last.iter().any(|operation| !operation.settled());
    let failed = last.first().and_then(operations::failure);
    Ok(BackupsPage { shell: LayoutContext::default(), frame, rows, is_live, failed, form })
}

/// `GET …/backups`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let page = filled(&visit, Filled::default()).await?;
    visit.page(|shell| BackupsPage { shell, ..page })
}

/// `POST …/backups`
pub(crate) async fn create(posted: FormPost) -> PageResult {
    let (access, _, frame) = deployment::open::<Manage>(&posted, DeploymentTab::Backups).await?;
    match posted.write(move |hub| hub.deployments().back_up(&access, None)).await {
        Ok(_) => posted.redirect_saying(&format!("{}/backups", frame.path), "Backup started."),
        Err(failure) => {
            let page = filled(&posted, Filled::default().refused(failure, &[])?).await?;
            posted.refuse(|shell| BackupsPage { shell, ..page })
        }
    }
}

fn question(frame: &DeploymentFrame, id: &str) -> ConfirmQuestion {
    ConfirmQuestion {
        title: "Delete this backup?".to_owned(),
        text: format!(
            "Backup {id} and its files are permanently deleted. You can no longer start a deployment from it."
        ),
        button: "Delete backup",
        back: format!("{}/backups", frame.path),
        hidden: Vec::new(),
    }
}

/// `GET …/backups/{backup}/delete`
pub(crate) async fn ask_delete(visit: PageContext) -> PageResult {
    let (access, _, frame) = deployment::open::<Manage>(&visit, DeploymentTab::Backups).await?;
    let id = BackupId::parse(&visit.segment("backup")).map_err(|_| PageError::nothing_here())?;
    let backups = visit.read(move |hub| hub.deployments().backups(&access)).await?;
    let found = backups.iter().find(|backup| backup.id == id).ok_or_else(PageError::nothing_here)?;
    let question = question(&frame, &found.id.to_string());
    confirm::ask(&visit, frame, question)
}

/// `POST …/backups/{backup}/delete`
pub(crate) async fn delete(posted: FormPost) -> PageResult {
    let (access, _, frame) = deployment::open::<Manage>(&posted, DeploymentTab::Backups).await?;
    let id = posted.segment("backup");
    let asked = id.clone();
    match posted.write_always(move |hub| hub.deployments().remove_backup(&access, &asked)).await {
        Ok(_) => posted.redirect_saying(&format!("{}/backups", frame.path), "Backup deleted."),
        Err(failure) => {
            let form = Filled::default().refused(failure, &[])?;
            let question = question(&frame, &id);
            confirm::ask_again(&posted, frame, question, form)
        }
    }
}

/// `GET …/backups/{backup}/{database}`: downloads the file of a database.
pub(crate) async fn download(visit: PageContext) -> PageResult {
    let (access, _, frame) = deployment::open::<Manage>(&visit, DeploymentTab::Backups).await?;
    let (id, database) = (visit.segment("backup"), visit.segment("database"));
    // Existing names consist of letters, digits, `-`, `_` and `.`, so the file name needs no quoting.
    let disposition = format!("attachment; filename=\"{}-{database}-{id}.db\"", frame.name);
    let file = visit.read(move |hub| hub.deployments().read_backup(&access, &id, &database)).await?;
    Ok(HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, "application/octet-stream"))
        .insert_header((header::CONTENT_DISPOSITION, disposition))
        .no_chunking(file.size_bytes)
        .streaming(file_pieces(file.bytes)))
}
