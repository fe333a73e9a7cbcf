//! `/deployments/…`: databases served to libSQL clients, with their costs and health.

pub(crate) mod backups;
pub(crate) mod collaborators;
pub(crate) mod config;
pub(crate) mod cost;
pub(crate) mod create;
pub(crate) mod databases;
pub(crate) mod general;
pub(crate) mod lifecycle;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod metrics;
pub(crate) mod operations;
pub(crate) mod overview;

mod choices;
mod confirm;
mod connect;
mod source;

use actix_web::web;

use crate::deployment::DeploymentFrame;
use crate::pages::live;

/// Registers the pages of deployments.
pub(crate) fn routes(config: &mut web::ServiceConfig) {
    let at = |below: &str| web::resource(format!("/deployments/{{owner}}/{{deployment}}{below}"));
    config
        .route("/deployments", web::get().to(list::mine))
        .service(web::resource("/deployments/new").get(create::ask).post(create::send))
        .route("/deployments/{owner}", web::get().to(list::show))
        .service(at("").get(overview::show))
        .service(at("/live").get(live::of_deployment))
        .service(at("/tokens").post(overview::make_token))
        .service(at("/databases").get(databases::show).post(databases::add))
        .service(at("/databases/{database}/delete").get(databases::ask_delete).post(databases::delete))
        .service(at("/metrics").get(metrics::show))
        .service(at("/metrics/{metric}").get(metrics::show_one))
        .service(at("/logs").get(logs::show))
        .service(at("/backups").get(backups::show).post(backups::create))
        .service(at("/backups/{backup}/delete").get(backups::ask_delete).post(backups::delete))
        .service(at("/backups/{backup}/{database}").get(backups::download))
        .service(at("/operations").get(operations::show))
        .service(at("/cost").get(cost::show))
        .service(at("/instances/{instance}/reboot").get(lifecycle::ask_reboot).post(lifecycle::reboot))
        .service(at("/start").get(lifecycle::ask_start).post(lifecycle::start))
        .service(at("/shutdown").get(lifecycle::ask_shutdown).post(lifecycle::shutdown))
        .service(at("/discard").get(lifecycle::ask_discard).post(lifecycle::discard))
        .service(at("/delete").get(lifecycle::ask_delete).post(lifecycle::delete))
        .service(at("/settings").get(general::show).post(general::keep_version))
        .service(at("/settings/leave").post(general::leave))
        .service(at("/settings/config").get(config::show).post(config::send))
        .service(at("/settings/collaborators").get(collaborators::show).post(collaborators::put))
        .service(at("/settings/collaborators/remove").post(collaborators::remove));
}

/// The sections of the settings.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DeploymentSettingsSection {
    General,
    Config,
    Collaborators,
}

/// Returns the navigation between the sections: label, path, and whether the section is shown.
fn sections(frame: &DeploymentFrame, shown: DeploymentSettingsSection) -> Vec<(&'static str, String, bool)> {
    let all = [
        (DeploymentSettingsSection::General, "General", "", true),
        (DeploymentSettingsSection::Config, "Configuration", "/config", true),
        (DeploymentSettingsSection::Collaborators, "Collaborators", "/collaborators", frame.may_manage),
    ];
    let link = |(section, label, below, _): (DeploymentSettingsSection, &'static str, &str, bool)| {
        (label, format!("{}/settings{below}", frame.path), section == shown)
    };
    all.into_iter().filter(|(.., is_there)| *is_there).map(link).collect()
}
