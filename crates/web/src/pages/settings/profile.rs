//! `/settings/profile`

use askama::Template;
use branchyard_domain::entities::User;
use branchyard_domain::usecases::Profile;
use branchyard_domain::values::{Description, DisplayName, WebAddress};

use super::{Sections, sections};
use crate::forms::{Filled, Posted};
use crate::layout::Shell;
use crate::visit::{Answer, Visit};

#[derive(Template)]
#[template(path = "settings/profile.html")]
struct ProfilePage {
    shell: Shell,
    sections: Sections,
    here: &'static str,
    form: Filled,
    emails: Vec<(String, bool)>,
}

const HERE: &str = "/settings/profile";

fn fill(visit: &Visit, user: &User, form: Filled) -> impl FnOnce(Shell) -> ProfilePage {
    let sections = sections(visit);
    let emails = user.emails.iter().map(|email| (email.address.clone(), email.is_primary)).collect();
    move |shell| ProfilePage { shell, sections, here: HERE, form, emails }
}

/// `GET /settings/profile`
pub(crate) async fn show(visit: Visit) -> Answer {
    let user = visit.user()?;
    let said = |text: &Option<String>| text.clone().unwrap_or_default();
    let form = Filled::default()
        .with("display_name", said(&user.display_name))
        .with("bio", said(&user.bio))
        .with("location", said(&user.location))
        .with("website", said(&user.website_url));
    visit.page(fill(&visit, &user, form))
}

/// `POST /settings/profile`
pub(crate) async fn send(posted: Posted) -> Answer {
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
        return posted.refuse(fill(&posted, &user, form));
    };
    let profile = Profile { display_name, bio, location, website };
    posted.write(move |hub| hub.people().edit_profile(&user, profile)).await?;
    posted.redirect_saying(HERE, "Your profile is saved.")
}
