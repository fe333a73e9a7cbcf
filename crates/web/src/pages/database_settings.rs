//! `/{owner}/{database}/settings`: pages for administrators of the database.

pub(crate) mod collaborators;
pub(crate) mod deletion;
pub(crate) mod deliveries;
pub(crate) mod general;
pub(crate) mod hooks;
pub(crate) mod mirror;
pub(crate) mod purge;
pub(crate) mod transfer;

use crate::database::DatabaseFrame;

/// The sections of the settings.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DatabaseSettingsSection {
    General,
    Collaborators,
    Hooks,
    Mirror,
}

/// The navigation between the sections.
pub(super) struct DatabaseSettingsNav {
    /// Label, path, and whether the section is shown.
    pub(super) links: Vec<(&'static str, String, bool)>,
}

impl DatabaseSettingsNav {
    pub(super) fn of(frame: &DatabaseFrame, shown: DatabaseSettingsSection) -> Self {
        let all = [
            (DatabaseSettingsSection::General, "General", ""),
            (DatabaseSettingsSection::Collaborators, "Collaborators", "/collaborators"),
            (DatabaseSettingsSection::Hooks, "Webhooks", "/hooks"),
            (DatabaseSettingsSection::Mirror, "Mirror", "/mirror"),
        ];
        let is_there = |section| frame.is_mirror || section != DatabaseSettingsSection::Mirror;
        let link = |(section, label, below): (DatabaseSettingsSection, &'static str, &str)| {
            (label, format!("{}/settings{below}", frame.path), section == shown)
        };
        Self { links: all.into_iter().filter(|(section, ..)| is_there(*section)).map(link).collect() }
    }
}
