//! `/deployments/new`: choose a size, review the price, confirm it.

use askama::Template;
use branchyard_deployments::values::{DeploymentName, ServedName, Usd};
use branchyard_deployments::{NewDeployment, OwnerUsage};
use branchyard_http_common::ApiError;

use super::choices::{self, Choices, Chosen, Price};
use super::source;
use crate::deployment;
use crate::error_page::PageError;
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::money;
use crate::page_context::{PageContext, PageResult};
use crate::pages::settings::usage::Month;

const HERE: &str = "/deployments/new";
const FIELDS: &[&str] = &["owner", "name", "database", "instance_type_id", "volume_type_id", "volume_size_gb"];
/// The fields that the confirmation page carries as hidden fields.
const CARRIED: &[&str] =
    &["owner", "name", "from", "ref", "database", "place", "instance_type_id", "volume_type_id", "volume_size_gb"];

/// The monthly spending of an owner, including the new deployment.
struct OwnerSpending {
    committed: String,
    with_this: String,
    limit: Option<String>,
    is_above: bool,
}

impl OwnerSpending {
    fn of(usage: &OwnerUsage, rate: Usd) -> Self {
        let with_this = usage.committed_monthly + rate.per_month();
        Self {
            committed: money::dollars(usage.committed_monthly),
            with_this: money::dollars(with_this),
            limit: usage.limit.map(money::dollars),
            is_above: usage.limit.is_some_and(|limit| with_this > limit),
        }
    }
}

#[derive(Template)]
#[template(path = "deployments/new.html")]
struct NewDeploymentPage {
    shell: LayoutContext,
    form: Filled,
    owners: Vec<String>,
    choices: Choices,
    spending: Option<OwnerSpending>,
    may_start: bool,
    hint: &'static str,
    /// Databases that the form suggests.
    databases: Vec<String>,
}

#[derive(Template)]
#[template(path = "deployments/agree.html")]
struct AgreePage {
    shell: LayoutContext,
    form: Filled,
    hidden: Vec<(&'static str, String)>,
    price: Price,
    spending: Option<OwnerSpending>,
    facts: Vec<(&'static str, String)>,
    stats: bool,
}

/// Returns the owners the viewer can create deployments for, with their usage.
async fn owners(visit: &PageContext) -> Result<Vec<OwnerUsage>, PageError> {
    let user = visit.user()?;
    let month = Month::at(visit.state.services.now());
    Ok(visit.read(move |hub| hub.deployments().usage(&user, month.begin(), month.end())).await?.owners)
}

fn spending(owners: &[OwnerUsage], name: &str, price: Option<&Price>) -> Option<OwnerSpending> {
    let usage =
        owners.iter().find(|usage| usage.owner.as_str().eq_ignore_ascii_case(name)).or_else(|| owners.first())?;
    Some(OwnerSpending::of(usage, price?.rate))
}

/// Builds the form page. Without `price`, the price is computed from the form.
async fn filled(visit: &PageContext, form: Filled, price: Option<Price>) -> Result<NewDeploymentPage, PageError> {
    let owners = owners(visit).await?;
    let (mut choices, form) = choices::offer(visit, form, None, price);
    if choices.price.is_none() && !form.has_faults() {
        choices.price = choices::price_shown(visit, &form, None)?;
    }
    let spending = spending(&owners, form.value("owner"), choices.price.as_ref());
    let owners = owners.into_iter().map(|usage| usage.owner.to_string()).collect();
    let hint = match form.value("from").is_empty() {
        true => "Name of the first database. Leave empty to use the deployment name.",
        false => "Name of the first database. Leave empty to use the name of the cloned database.",
    };
    let may_start = visit.state.services.deployments().may_start();
    let (shell, databases) = (LayoutContext::default(), crate::suggestions::databases(visit).await?);
    Ok(NewDeploymentPage { shell, form, owners, choices, spending, may_start, hint, databases })
}

/// `GET /deployments/new?owner=…&from=…&ref=…`
pub(crate) async fn ask(visit: PageContext) -> PageResult {
    let sent = |name: &str| visit.parameter(name).unwrap_or_default();
    let mut form = Filled::default();
    for name in ["owner", "from", "ref"] {
        form = form.with(name, sent(name));
    }
    if let Some((_, name)) = form.value("from").split_once('/') {
        let name = name.to_owned();
        form = form.with("name", name);
    }
    let page = filled(&visit, form, None).await?;
    visit.page(|shell| NewDeploymentPage { shell, ..page })
}

/// `POST /deployments/new`: updates the price, asks for confirmation, or creates the deployment, depending on the button pressed.
pub(crate) async fn send(posted: FormPost) -> PageResult {
    posted.user()?;
    let mut form = posted.form.again();
    let chosen = Chosen::read(&posted.form, &mut form, None);
    let price = match &chosen {
        Some(chosen) => chosen.price(&posted, &mut form)?,
        None => None,
    };
    let step = posted.form.line("step");
    if step == "price" {
        let page = filled(&posted, form, price).await?;
        return posted.page(|shell| NewDeploymentPage { shell, ..page });
    }
    let wanted = wanted(&posted, &mut form, chosen);
    let (Some(wanted), Some(price), false) = (wanted, price, form.has_faults()) else {
        let page = filled(&posted, form, None).await?;
        return posted.refuse(|shell| NewDeploymentPage { shell, ..page });
    };
    if step != "create" || posted.form.line("agreed") != price.agreed {
        if step == "create" {
            form.fault("", "The price has changed. Review it before you confirm.");
        }
        return agree(&posted, form, &wanted, price).await;
    }
    let user = posted.user()?;
    let made = posted.write(move |hub| -> Result<_, ApiError> { Ok(hub.deployments().create(&user, wanted, None)?) });
    match made.await {
        Ok(view) => {
            let locator = &view.deployment.locator;
            posted.redirect_saying(&deployment::path_of(locator), &format!("Starting {locator}…"))
        }
        Err(failure) => {
            let form = form.refused(failure, FIELDS)?;
            let page = filled(&posted, form, Some(price)).await?;
            posted.refuse(|shell| NewDeploymentPage { shell, ..page })
        }
    }
}

fn wanted(posted: &FormPost, form: &mut Filled, chosen: Option<Chosen>) -> Option<NewDeployment> {
    let name = form.checked("name", DeploymentName::parse(&posted.form.line("name")));
    let source = source::read(&posted.form, form);
    let database = match posted.form.line("database") {
        text if text.is_empty() => Some(None),
        text => form.checked("database", ServedName::parse(&text)).map(Some),
    };
    let chosen = chosen?;
    Some(NewDeployment {
        owner: posted.form.line("owner"),
        name: name?,
        cloud: chosen.cloud,
        zone: chosen.zone,
        instance_type: chosen.instance_type,
        volume_type: chosen.volume_type,
        volume_gb: chosen.volume_gb,
        other_cluster: None,
        replicas: 0,
        public_tls: false,
        remotesapi: false,
        mcp: false,
        stats: posted.form.is_checked("stats"),
        source: source?,
        database: database?,
    })
}

async fn agree(posted: &FormPost, form: Filled, wanted: &NewDeployment, price: Price) -> PageResult {
    let owners = owners(posted).await?;
    let spending = spending(&owners, &wanted.owner, Some(&price));
    let hidden = CARRIED.iter().map(|name| (*name, form.value(name).to_owned())).collect();
    let begins = match &wanted.source {
        None => "Empty, with a main branch".to_owned(),
        Some(source) => {
            let at = source.reference.as_deref().unwrap_or("the default branch");
            format!("Clone of {}/{} at {at}", source.owner, source.name)
        }
    };
    let facts = vec![
        ("Deployment", format!("{}/{}", wanted.owner, wanted.name)),
        ("First database", begins),
        ("Zone", wanted.zone.clone()),
        ("Size", wanted.instance_type.clone()),
        ("Storage", format!("{} GB, {}", wanted.volume_gb, wanted.volume_type)),
    ];
    let stats = wanted.stats;
    posted.page(|shell| AgreePage { shell, form, hidden, price, spending, facts, stats })
}

/// Returns the path of the form that creates a deployment from a clone of a database at a ref.
pub(crate) fn address(from: &str, reference: &str) -> String {
    crate::paths::with_query(HERE, &[("from", from), ("ref", reference)])
}
