//! `/settings/theme`: light, dark, or what the system says.

use crate::forms::Posted;
use crate::paths;
use crate::session::Jar;
use crate::visit::Answer;

/// `POST /settings/theme`
pub(crate) async fn send(posted: Posted) -> Answer {
    let (theme, next) = (posted.form.line("theme"), posted.form.line("next"));
    let cookie = match theme.as_str() {
        "light" | "dark" => Jar::Theme.set(&posted.state, &theme),
        _ => Jar::Theme.clear(&posted.state),
    };
    posted.redirect_with(paths::local(Some(&next)), [cookie])
}
