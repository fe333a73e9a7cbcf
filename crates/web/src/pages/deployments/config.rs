//! `/deployments/{owner}/{deployment}/settings/config`: the configuration of a deployment.

use askama::Template;
use branchyard_deployments::SettingView;
use branchyard_deployments::access::{Manage, Observe};
use branchyard_deployments::errors::DeploymentError;
use branchyard_deployments::values::{Applied, Rule, Setting};
use branchyard_domain::errors::PortError;
use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

use super::{DeploymentSettingsSection, sections};
use crate::deployment::{self, DeploymentFrame, DeploymentTab};
use crate::error_page::PageError;
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};

struct SettingRow {
    key: &'static str,
    description: &'static str,
    /// The allowed values. Empty if the value is typed.
    words: Vec<&'static str>,
    /// The allowed range, the default, and when a change takes effect.
    hint: String,
    is_overridden: bool,
    pending_restart: bool,
    /// The name of the checkbox that resets the setting to its default.
    reset: String,
}

impl SettingRow {
    fn of(view: &SettingView) -> Self {
        let setting = view.setting;
        let (words, range) = match setting.rule() {
            Rule::Flag => (vec!["true", "false"], String::new()),
            Rule::Word(words) => (words.to_vec(), String::new()),
            Rule::Integer(least, most) => (Vec::new(), format!("{least} to {most}. ")),
            Rule::OptionalInteger(least, most) => (Vec::new(), format!("Empty, or {least} to {most}. ")),
            Rule::Origins => (Vec::new(), "Empty, *, or https://… URLs separated by commas. ".to_owned()),
        };
        let default = match setting.default_value() {
            "" => "empty",
            text => text,
        };
        let applied = match setting.applied() {
            Applied::Live => "from the next request",
            Applied::Stream => "for new streams",
            Applied::Restart => "after the next restart",
        };
        Self {
            key: setting.key(),
            description: setting.description(),
            words,
            hint: format!("{range}Default: {default}. Takes effect {applied}."),
            is_overridden: view.is_overridden,
            pending_restart: view.pending_restart,
            reset: format!("reset-{}", setting.key()),
        }
    }
}

/// Returns a fingerprint of the settings that the form was filled with.
fn seen(views: &[SettingView]) -> String {
    let mut digest = Sha256::new();
    for view in views {
        digest.update(format!("{}={}\0{}\0", view.setting.key(), view.value, view.is_overridden));
    }
    HEXLOWER.encode(&digest.finalize()[..12])
}

#[derive(Template)]
#[template(path = "deployments/config.html")]
struct ConfigPage {
    shell: LayoutContext,
    frame: DeploymentFrame,
    sections: Vec<(&'static str, String, bool)>,
    rows: Vec<SettingRow>,
    form: Filled,
}

async fn filled(visit: &PageContext, form: Option<Filled>) -> Result<ConfigPage, PageError> {
    let (access, _, frame) = deployment::open::<Observe>(visit, DeploymentTab::Settings).await?;
    let views = visit.read(move |hub| hub.deployments().settings(&access)).await?;
    let form = form.unwrap_or_else(|| {
        let form = Filled::default().with("seen", seen(&views));
        views.iter().fold(form, |form, view| form.with(view.setting.key(), view.value.clone()))
    });
    let sections = sections(&frame, DeploymentSettingsSection::Config);
    Ok(ConfigPage {
        shell: LayoutContext::default(),
        frame,
        sections,
        rows: views.iter().map(SettingRow::of).collect(),
        form,
    })
}

/// `GET …/settings/config`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let page = filled(&visit, None).await?;
    visit.page(|shell| ConfigPage { shell, ..page })
}

/// `POST …/settings/config`: saves all changed settings, or none.
pub(crate) async fn send(posted: FormPost) -> PageResult {
    let (access, _, frame) = deployment::open::<Manage>(&posted, DeploymentTab::Settings).await?;
    let reading = access.clone();
    let views = posted.read(move |hub| hub.deployments().settings(&reading)).await?;
    let mut overrides = Vec::new();
    for view in &views {
        let key = view.setting.key();
        if posted.form.is_checked(&format!("reset-{key}")) {
            overrides.push((key.to_owned(), None));
        } else if posted.form.is_checked(key) && posted.form.line(key) != view.value {
            overrides.push((key.to_owned(), Some(posted.form.line(key))));
        }
    }
    let as_sent = posted.form.line("seen");
    let set = posted.write(move |hub| -> Result<_, PortError> {
        let unchanged = |views: &[SettingView]| seen(views) == as_sent;
        match hub.deployments().set(&access, overrides, Some(&unchanged)) {
            Ok(_) => Ok(Ok(())),
            Err(DeploymentError::Settings(wrong)) => Ok(Err(wrong)),
            Err(DeploymentError::Port(fault)) => Err(fault),
            Err(error) => Ok(Err(vec![(String::new(), error.to_string())])),
        }
    });
    let wrong = match set.await? {
        Ok(()) => return posted.redirect_saying(&format!("{}/settings/config", frame.path), "Settings saved."),
        Err(wrong) => wrong,
    };
    let mut form = posted.form.again();
    for (key, why) in wrong {
        match Setting::by_key(&key) {
            Some(setting) => form.fault(setting.key(), why),
            None => form.fault("", crate::error_page::sentence(&why)),
        }
    }
    let page = filled(&posted, Some(form)).await?;
    posted.refuse(|shell| ConfigPage { shell, ..page })
}
