//! `/{owner}/{database}/branches/{branch}/delete` and `…/tags/{tag}/delete`: ask, then delete the ref if it is unchanged.

use branchyard_domain::Hub;
use branchyard_domain::access::{DatabaseAccess, Write};
use branchyard_domain::entities::{Branch, DatabaseLocator, Pull, Tag};
use branchyard_domain::errors::{PullError, RefError};
use branchyard_domain::values::CommitHash;

use super::confirm::{self, AffectedItem, ConfirmQuestion};
use crate::database::{self, DatabaseFrame, DatabaseTab};
use crate::error_page::PageError;
use crate::format;
use crate::forms::{Filled, FormPost};
use crate::page_context::{PageContext, PageResult};
use crate::paths;

/// Number of pull requests named in a question.
const MOST_PULLS: usize = 20;

/// The operations that the deletion of branches and of tags share.
pub(super) trait Ref: Sized + Send + 'static {
    /// The noun in texts, and the name of the path parameter.
    const WORD: &'static str;
    /// The last path segment of the page that lists these refs.
    const LIST: &'static str;
    /// The label of the button.
    const BUTTON: &'static str;

    fn get(hub: &Hub, access: &DatabaseAccess<Write>, name: &str) -> Result<Self, RefError>;

    /// Deletes the ref if it still points to `commit`.
    fn delete(hub: &Hub, access: &DatabaseAccess<Write>, name: &str, commit: &str) -> Result<Self, RefError>;

    fn name(&self) -> &str;

    fn commit(&self) -> &CommitHash;

    /// Describes the consequences of the deletion.
    fn consequence(&self) -> String;

    /// Returns the open pull requests that can no longer be merged after the deletion, at most [`MOST_PULLS`] + 1.
    fn pulls(&self, hub: &Hub, access: &DatabaseAccess<Write>) -> Result<Vec<(DatabaseLocator, Pull)>, PullError> {
        let _ = (hub, access);
        Ok(Vec::new())
    }
}

impl Ref for Branch {
    const WORD: &'static str = "branch";
    const LIST: &'static str = "branches";
    const BUTTON: &'static str = "Delete branch";

    fn get(hub: &Hub, access: &DatabaseAccess<Write>, name: &str) -> Result<Self, RefError> {
        hub.branches().get(access, name)
    }

    fn delete(hub: &Hub, access: &DatabaseAccess<Write>, name: &str, commit: &str) -> Result<Self, RefError> {
        hub.branches().delete(access, name, Some(&|branch: &Self| branch.head.as_str() == commit))
    }

    fn name(&self) -> &str {
        self.name.as_str()
    }

    fn commit(&self) -> &CommitHash {
        &self.head
    }

    fn consequence(&self) -> String {
        let head = format::short(&self.head);
        format!("Its commits stay reachable only through other branches and tags. Its latest commit is {head}.")
    }

    fn pulls(&self, hub: &Hub, access: &DatabaseAccess<Write>) -> Result<Vec<(DatabaseLocator, Pull)>, PullError> {
        hub.pulls().of_branch(access, &self.name, MOST_PULLS + 1)
    }
}

impl Ref for Tag {
    const WORD: &'static str = "tag";
    const LIST: &'static str = "tags";
    const BUTTON: &'static str = "Delete tag";

    fn get(hub: &Hub, access: &DatabaseAccess<Write>, name: &str) -> Result<Self, RefError> {
        hub.tags().get(access, name)
    }

    fn delete(hub: &Hub, access: &DatabaseAccess<Write>, name: &str, commit: &str) -> Result<Self, RefError> {
        hub.tags().delete(access, name, Some(&|tag: &Self| tag.commit.as_str() == commit))
    }

    fn name(&self) -> &str {
        self.name.as_str()
    }

    fn commit(&self) -> &CommitHash {
        &self.commit
    }

    fn consequence(&self) -> String {
        format!("Commit {} is kept, but no longer has this tag.", format::short(&self.commit))
    }
}

fn list<R: Ref>(frame: &DatabaseFrame) -> String {
    format!("{}/{}", frame.path, R::LIST)
}

fn question<R: Ref>(frame: &DatabaseFrame, named: &R) -> ConfirmQuestion {
    ConfirmQuestion {
        title: format!("Delete {} {}?", R::WORD, named.name()),
        text: named.consequence(),
        button: R::BUTTON,
        back: list::<R>(frame),
        hidden: vec![("commit", named.commit().to_string())],
    }
}

/// Returns the database, and the branch or tag named in the path.
async fn named<R: Ref>(visit: &PageContext) -> Result<(DatabaseAccess<Write>, DatabaseFrame, R), PageError> {
    let (access, frame) = database::open::<Write>(visit, DatabaseTab::Branches).await?;
    let (name, seen) = (visit.segment(R::WORD), access.clone());
    let named = visit.read(move |hub| R::get(hub, &seen, &name)).await?;
    Ok((access, frame, named))
}

/// `GET`
pub(super) async fn ask<R: Ref>(visit: PageContext) -> PageResult {
    let (access, frame, named) = named::<R>(&visit).await?;
    let mut question = question(&frame, &named);
    let mut pulls = visit.read(move |hub| named.pulls(hub, &access)).await?;
    if !pulls.is_empty() {
        let count = if pulls.len() > MOST_PULLS {
            format!("More than {MOST_PULLS} open pull requests")
        } else {
            format::counted(pulls.len() as u64, "open pull request", "open pull requests")
        };
        question.text.push_str(&format!(" {count} can't be merged without it:"));
    }
    pulls.truncate(MOST_PULLS);
    let affected = pulls.into_iter().map(|(database, pull)| {
        let is_here = database.owner.as_str() == frame.owner && database.name.as_str() == frame.name;
        let of = if is_here { String::new() } else { database.to_string() };
        AffectedItem {
            label: format!("{of}#{} {}", pull.number, pull.title),
            href: format!("{}/pulls/{}", paths::database(&database), pull.number),
        }
    });
    let affected = affected.collect();
    confirm::ask_about(&visit, frame, question, affected)
}

/// `POST`
pub(super) async fn delete<R: Ref>(posted: FormPost) -> PageResult {
    let (access, frame, named) = named::<R>(&posted).await?;
    let (name, commit) = (named.name().to_owned(), posted.form.line("commit"));
    match posted.write_always(move |hub| R::delete(hub, &access, &name, &commit)).await {
        Ok(deleted) => {
            let mut word = R::WORD.to_owned();
            word[..1].make_ascii_uppercase();
            posted.redirect_saying(&list::<R>(&frame), &format!("{word} {} deleted.", deleted.name()))
        }
        Err(failure) => {
            let (question, form) = (question(&frame, &named), Filled::default().refused(failure, &[])?);
            confirm::ask_again(&posted, frame, question, form)
        }
    }
}
