//! The pages of Branchyard: rendered here, usable without JavaScript.
//!
//! A page only translates: it takes a `page_context::PageContext` (who asks, and for what), gets an access value from the domain, runs use cases
//! on a pool, and fills a template. What is *not* here: rules of the product, permission checks, SQL, anything loaded from
//! elsewhere, inline scripts or styles (the policy of `layout` would refuse them).
//!
//! | module | what it is |
//! |---|---|
//! | `pages/<page>.rs`, `templates/<page>.html` | one page each; the routes are in `pages/mod.rs` |
//! | `visit` | the extractor of every page that is read |
//! | `forms`, `csrf` | the extractor of every form that is sent, and the proof that it was ours |
//! | `session` | cookies |
//! | `layout` | what surrounds all pages; headers of every response |
//! | `database` | the head of the pages of one database: tabs, access, the ref that is shown |
//! | `deployment`, `money`, `plot` | the head of the pages of one deployment; amounts in words; numbers over time, drawn |
//! | `rows`, `looking`, `found`, `links`, `diagram` | cells of a result, what of a table is looked at, and what is there, from row to row, tables drawn |
//! | `error_page` | refusals as pages |
//! | `assets` | style sheet and script, under names that change with them |
//! | `format`, `markdown`, `prose`, `paths` | times and sizes in words, prose of users, prose of ours, addresses |
//! | `reference` | the reference of an API, from its OpenAPI document |
//! | `changes`, `log`, `graph` | what differs between two commits, what commits lie between them, histories drawn |
//! | `news` | what happened, in words |
//! | `settled` | waits a moment for operations |
//!
//! # How to add a page
//!
//! `/{owner}/{database}/tags`, say:
//!
//! 1. `templates/tags.html`: `{% extends "database.html" %}`, a `title` block and a `content` block.
//! 2. `src/pages/tags.rs`: a struct with `#[derive(Template)]` that holds `shell: LayoutContext`, `frame: DatabaseFrame` and what the page shows,
//!    and a handler:
//!
//!    ```ignore
//!    pub(crate) async fn show(visit: Visit) -> Answer {
//!        let (access, frame) = database::open::<Read>(&visit, Tab::Branches).await?;
//!        let tags = visit.read(move |hub| hub.tags().list(&access, None, 100)).await?;
//!        visit.page(|shell| TagsPage { shell, frame, tags })
//!    }
//!    ```
//!
//!    `visit` is a [`RequestContext`](branchyard_http_common::RequestContext) as well: `read`, `write`, `run`, `segment`, `read_slot`. A refusal of the
//!    domain becomes an error page by `?`; one that a form can answer is matched on (`visit.write(|hub| Ok::<_, Fault>(…))`).
//! 3. A form that changes something is a `POST` whose handler takes `FormPost` instead, which has checked where it
//!    comes from; the template puts `{{ shell.form_token() }}` into the form. It ends with `visit.redirect(…)`, or with the page
//!    again, as `Filled` with the errors beside their fields (`visit.refuse`).
//! 4. Its route in `src/pages/mod.rs`, above the less exact ones.
//! 5. A test in `crates/testkit/tests/it/web`. Give what a browser test has to find an `id`.

mod activity_feed;
pub mod assets;
mod changes;
mod chart;
mod csrf;
mod database;
mod deployment;
mod diagram;
mod error_page;
mod format;
mod forms;
mod graph;
mod layout;
mod links;
mod log;
mod markdown;
mod money;
mod page_context;
mod pages;
mod paths;
mod prose;
mod reference;
mod row_cursor;
mod rows;
mod session;
mod settled;
mod table_page;
mod table_query;

pub use reference::Reference;

use actix_web::middleware::from_fn;
use actix_web::web;

/// The pages, for the end of the application: they answer whatever nothing else does. Wants an
/// [`AppState`](branchyard_http_common::AppState) in the application's data, and the [`Reference`]s in a vector.
pub fn configure(config: &mut web::ServiceConfig) {
    let forms = web::FormConfig::default().limit(branchyard_http_common::MAX_FORM_BYTES);
    config.service(web::scope("").app_data(forms).wrap(from_fn(layout::dress)).configure(pages::routes));
}
