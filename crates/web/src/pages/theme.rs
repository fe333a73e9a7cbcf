//! `/settings/theme`: light, dark, or the system's theme.

use crate::forms::FormPost;
use crate::page_context::PageResult;
use crate::paths;
use crate::session::CookieKind;

/// `POST /settings/theme`
pub(crate) async fn send(posted: FormPost) -> PageResult {
    let (theme, next) = (posted.form.line("theme"), posted.form.line("next"));
    let cookie = match theme.as_str() {
        "light" | "dark" => CookieKind::Theme.set(&posted.state, &theme),
        _ => CookieKind::Theme.clear(&posted.state),
    };
    posted.redirect_with(paths::local(Some(&next)), [cookie])
}
