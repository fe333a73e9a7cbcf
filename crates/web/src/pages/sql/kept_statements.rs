//! Statements that are kept while their author signs in again.
//!
//! A form of statements names its author, sealed by the server. If it is sent after the session has ended, the statements go into
//! the form of the sign-in, sealed together with the author, so that they are in no URL and no store. They are opened after a
//! sign-in by the same user. Another person who uses the browser cannot read them, and signs in without them.

use branchyard_domain::values::AccountId;
use branchyard_http_common::{open_token, token};
use serde::{Deserialize, Serialize};

use crate::error_page::PageError;
use crate::forms::FormPost;
use crate::page_context::PageContext;

/// Longest statements that are kept, in bytes.
pub(crate) const MOST: usize = 32 << 10;
/// Longest statements that are kept, in bytes, with the escapes of JSON. Sealed, they fit in a form of a caller without a credential.
const MOST_ESCAPED: usize = 44 << 10;
/// The field with the author of a form's statements.
const AUTHOR: &str = "author";
/// The field of the sign-in with the statements.
pub(crate) const KEPT: &str = "kept";

/// Statements, with their author and where they were typed.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct KeptStatements {
    author: String,
    /// The path of the page that they were sent to.
    pub(crate) path: String,
    /// The branch, tag or commit that they were to run on.
    pub(crate) at: String,
    /// The statements. Empty if they were too long to be kept.
    pub(crate) statements: String,
}

impl KeptStatements {
    /// Reads the statements of a form whose session has ended. Returns `None` if the form names no author.
    pub(crate) fn of(posted: &FormPost) -> Option<Self> {
        let author: String = open_token(&posted.state.keys, AUTHOR, &posted.form.line(AUTHOR))?;
        let mut statements = posted.form.text("q");
        let escaped = serde_json::to_string(&statements).map_or(usize::MAX, |text| text.len());
        if statements.len() > MOST || escaped > MOST_ESCAPED {
            statements.clear();
        }
        let at = [posted.form.line("version"), posted.form.line("branch")];
        let at = at.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
        Some(Self { author, path: posted.request().path().to_owned(), at, statements })
    }

    /// Returns `true` if the user wrote the statements.
    pub(crate) fn is_by(&self, user: AccountId) -> bool {
        self.author == user.to_string()
    }

    /// Returns the statements as a field of the sign-in.
    pub(crate) fn sealed(&self, visit: &PageContext) -> String {
        token(&visit.state, KEPT, self)
    }

    /// Opens the field of a sign-in for the user who signed in. Returns `None` if another user wrote the statements.
    pub(crate) fn open(posted: &FormPost, user: AccountId) -> Option<Self> {
        let kept: Self = open_token(&posted.state.keys, KEPT, &posted.form.line(KEPT))?;
        kept.is_by(user).then_some(kept)
    }
}

/// Returns the signed-in user as the author of a form's statements, sealed.
pub(super) fn author(visit: &PageContext) -> Result<String, PageError> {
    Ok(token(&visit.state, AUTHOR, &visit.user()?.id.to_string()))
}
