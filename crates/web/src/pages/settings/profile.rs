//! `/settings/profile`

use std::sync::Arc;

use askama::Template;
use branchyard_domain::entities::User;
use branchyard_domain::usecases::Profile;
use branchyard_domain::values::{Description, DisplayName, EmailAddress, WebAddress};

use super::{SettingsNav, sections};
use crate::forms::{Filled, FormPost};
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};

#[derive(Template)]
#[template(path = "settings/profile.html")]
struct ProfilePage {
    shell: LayoutContext,
    sections: SettingsNav,
    here: &'static str,
    form: Filled,
    emails: Vec<(String, bool)>,
    email_form: Filled,
}

const HERE: &str = "/settings/profile";

fn said(user: &User) -> Filled {
    let said = |text: &Option<String>| text.clone().unwrap_or_default();
    Filled::default()
        .with("display_name", said(&user.display_name))
        .with("bio", said(&user.bio))
        .with("location", said(&user.location))
        .with("website", said(&user.website_url))
}

fn fill(
    visit: &PageContext,
    user: &User,
    form: Filled,
    email_form: Filled,
) -> impl FnOnce(LayoutContext) -> ProfilePage {
    let sections = sections(visit);
    let emails = user.emails.iter().map(|email| (email.address.clone(), email.is_primary)).collect();
    move |shell| ProfilePage { shell, sections, here: HERE, form, emails, email_form }
}

/// `GET /settings/profile`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let user = visit.user()?;
    visit.page(fill(&visit, &user, said(&user), Filled::default()))
}

/// `POST /settings/profile`
pub(crate) async fn send(posted: FormPost) -> PageResult {
    let user = posted.user()?;
    let mut form = posted.form.again();
    let display_name = form.checked("display_name", DisplayName::parse(posted.form.line("display_name")));
    let bio = form.checked("bio", Description::parse(posted.form.text("bio").trim()));
    let location = form.checked("location", DisplayName::parse(posted.form.line("location")));
    let website = posted.form.line("website");
    let website = match website.as_str() {
        "" => Some(None),
        text => form.checked("website", WebAddress::parse(text)).map(Some),
    };
    let (Some(display_name), Some(bio), Some(location), Some(website)) = (display_name, bio, location, website) else {
        return posted.refuse(fill(&posted, &user, form, Filled::default()));
    };
    let profile = Profile { display_name, bio, location, website };
    posted.write(move |hub| hub.people().edit_profile(&user, profile)).await?;
    posted.redirect_saying(HERE, "Profile saved.")
}

/// `POST /settings/profile/emails`
pub(crate) async fn add_email(posted: FormPost) -> PageResult {
    let user = posted.user()?;
    let mut form = posted.form.again();
    let Some(address) = form.checked("email", EmailAddress::parse(&posted.form.line("email"))) else {
        return posted.refuse(fill(&posted, &user, said(&user), form));
    };
    let of = Arc::clone(&user);
    match posted.write_always(move |hub| hub.people().add_email(&of, address)).await {
        Ok(()) => posted.redirect_saying(HERE, "Email address added."),
        Err(failure) => {
            let form = form.refused(failure, &[])?;
            posted.refuse(fill(&posted, &user, said(&user), form))
        }
    }
}

/// `POST /settings/profile/emails/remove`
pub(crate) async fn remove_email(posted: FormPost) -> PageResult {
    let (user, address) = (posted.user()?, posted.form.line("email"));
    posted.write(move |hub| hub.people().remove_email(&user, &address)).await?;
    posted.redirect_saying(HERE, "Email address removed.")
}

/// `POST /settings/profile/emails/primary`
pub(crate) async fn choose_email(posted: FormPost) -> PageResult {
    let (user, address) = (posted.user()?, posted.form.line("email"));
    posted.write(move |hub| hub.people().choose_email(&user, &address)).await?;
    posted.redirect_saying(HERE, "Commit email changed.")
}
