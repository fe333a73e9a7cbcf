//! `/{owner}/{database}/settings`: description, default branch, visibility.

use askama::Template;
use branchyard_domain::access::Admin;
use branchyard_domain::entities::Visibility;
use branchyard_domain::usecases::{DatabaseView, EditDatabase};
use branchyard_domain::values::Description;

use super::{Section, Sections};
use crate::database::{self, Frame, Tab};
use crate::forms::{Filled, Posted};
use crate::layout::Shell;
use crate::pages::confirm::{self, Question};
use crate::visit::{Answer, Visit};

const FIELDS: &[&str] = &["description", "default_branch", "visibility"];

#[derive(Template)]
#[template(path = "database_general.html")]
struct GeneralPage {
    shell: Shell,
    frame: Frame,
    sections: Sections,
    form: Filled,
}

/// `GET /{owner}/{database}/settings`
pub(crate) async fn show(visit: Visit) -> Answer {
    let (access, frame) = database::open::<Admin>(&visit, Tab::Settings).await?;
    let form = Filled::default()
        .with("description", frame.description.clone().unwrap_or_default())
        .with("default_branch", frame.default_branch.clone())
        .with("version", access.database().version.to_string());
    let sections = Sections::of(&frame, Section::General);
    visit.page(|shell| GeneralPage { shell, frame, sections, form })
}

/// `POST /{owner}/{database}/settings`
pub(crate) async fn edit(posted: Posted) -> Answer {
    let (access, frame) = database::open::<Admin>(&posted, Tab::Settings).await?;
    let mut form = posted.form.again();
    if let Some(description) = form.checked("description", Description::parse(posted.form.text("description").trim())) {
        let edit = EditDatabase {
            description: Some(description),
            default_branch: Some(posted.form.line("default_branch")),
            visibility: None,
        };
        let version = posted.form.line("version");
        let edited = posted.write(move |hub| {
            let as_seen = |view: &DatabaseView| view.database.version.to_string() == version;
            hub.databases().edit(&access, edit, Some(&as_seen))
        });
        match edited.await {
            Ok(_) => return posted.redirect_saying(&format!("{}/settings", frame.path), "The settings were saved."),
            Err(failure) => form = form.refused(failure, FIELDS)?,
        }
    }
    let sections = Sections::of(&frame, Section::General);
    posted.refuse(|shell| GeneralPage { shell, frame, sections, form })
}

fn question(frame: &Frame) -> Question {
    let (title, text, button) = if frame.is_private {
        (
            "Make it public?",
            "Everybody can then see and query it with all of its history, and fork it.",
            "Make it public",
        )
    } else {
        (
            "Make it private?",
            "Only you, its collaborators and members of its organization will see it. Forks that were made of it stay visible.",
            "Make it private",
        )
    };
    Question {
        title: title.to_owned(),
        text: text.to_owned(),
        button,
        back: format!("{}/settings", frame.path),
        // What was seen: sent twice, the form does not switch back.
        hidden: vec![("visibility", if frame.is_private { "public" } else { "private" }.to_owned())],
    }
}

/// `GET /{owner}/{database}/settings/visibility`
pub(crate) async fn ask_visibility(visit: Visit) -> Answer {
    let (_, frame) = database::open::<Admin>(&visit, Tab::Settings).await?;
    let question = question(&frame);
    confirm::ask(&visit, frame, question)
}

/// `POST /{owner}/{database}/settings/visibility`
pub(crate) async fn change_visibility(posted: Posted) -> Answer {
    let (access, frame) = database::open::<Admin>(&posted, Tab::Settings).await?;
    let visibility = match posted.form.line("visibility").as_str() {
        "public" => Visibility::Public,
        "private" => Visibility::Private,
        _ => {
            let (question, form) = (question(&frame), Filled::default().wrong("", "It is public or private."));
            return confirm::ask_again(&posted, frame, question, form);
        }
    };
    let edit = EditDatabase { visibility: Some(visibility), ..EditDatabase::default() };
    match posted.write(move |hub| hub.databases().edit(&access, edit, None)).await {
        Ok(_) => {
            let said = match visibility {
                Visibility::Public => "The database is public now.",
                Visibility::Private => "The database is private now.",
            };
            posted.redirect_saying(&format!("{}/settings", frame.path), said)
        }
        Err(failure) => {
            let (question, form) = (question(&frame), Filled::default().refused(failure, &[])?);
            confirm::ask_again(&posted, frame, question, form)
        }
    }
}
