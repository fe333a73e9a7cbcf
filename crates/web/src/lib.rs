//! The web pages of Branchyard. They are rendered on the server and work without JavaScript.
//!
//! A page is a thin adapter: it takes a `page_context::PageContext` (the caller and the request), gets an access value from the
//! domain, runs use cases on a pool, and fills a template. Product rules, permission checks and SQL live elsewhere. Pages load
//! nothing from other servers, and contain no inline scripts or styles: the policy in `layout` blocks them.
//!
//! | module | purpose |
//! |---|---|
//! | `pages/<page>.rs`, `templates/<page>.html` | one page each; the routes are in `pages.rs` |
//! | `page_context` | the extractor of pages that are read |
//! | `forms`, `csrf` | the extractor of submitted forms, and the protection against cross-site request forgery |
//! | `session` | cookies |
//! | `layout` | the layout of all pages, and the headers of every response |
//! | `database` | the frame of the pages of one database: tabs, access, selected ref |
//! | `deployment`, `money`, `chart` | the frame of the pages of one deployment, amounts of money, charts |
//! | `rows`, `value_view` | cells, and values in full |
//! | `table_query`, `table_page`, `row_cursor`, `links`, `diagram` | filters, pages of rows, their positions, links between rows, schema diagrams |
//! | `error_page` | error pages |
//! | `assets` | the style sheet, the script and the icon, under content-hashed names |
//! | `format`, `markdown`, `prose`, `paths` | times and sizes, users' Markdown, our own texts, paths of pages |
//! | `reference` | API references, rendered from OpenAPI documents |
//! | `grants_view` | applications, and what users granted to them |
//! | `changes`, `log`, `graph` | differences between commits, commits between refs, commit graphs |
//! | `activity_feed` | recent activity |
//! | `settled` | waits briefly for operations |
//! | `suggestions` | names that forms suggest |
//!
//! # How to add a page
//!
//! For example `/{owner}/{database}/tags`:
//!
//! 1. `templates/tags.html`: `{% extends "database.html" %}`, a `title` block and a `content` block.
//! 2. `src/pages/tags.rs`: a struct with `#[derive(Template)]` that holds `shell: LayoutContext`, `frame: DatabaseFrame` and the page's data, and a
//!    handler:
//!
//!    ```ignore
//!    pub(crate) async fn show(visit: PageContext) -> PageResult {
//!        let (access, frame) = database::open::<Read>(&visit, Tab::Branches).await?;
//!        let tags = visit.read(move |hub| hub.tags().list(&access, None, 100)).await?;
//!        visit.page(|shell| TagsPage { shell, frame, tags })
//!    }
//!    ```
//!
//!    `visit` dereferences to a [`RequestContext`](branchyard_http_common::RequestContext) with `read`, `write`, `run` and `segment`. `?`
//!    turns a domain error into an error page. To show an error in a form, match on it (`visit.write(|hub| Ok::<_, PortError>(…))`).
//! 3. A form that changes something is a `POST` whose handler takes `FormPost`, which has verified the origin of the form. The template
//!    includes `{{ shell.form_token() }}`. The handler ends with `visit.redirect(…)`, or shows the form again as a `Filled` with errors
//!    next to their fields (`visit.refuse`).
//! 4. Its route in `src/pages.rs`, above less specific routes.
//! 5. A test in `crates/testkit/tests/it/web`. Elements that a browser test looks up need an `id`.

mod activity_feed;
mod api_snippets;
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
mod grants_view;
mod graph;
mod layout;
mod links;
mod log;
mod markdown;
mod moments;
mod money;
mod new_branch;
mod page_context;
mod pages;
mod paths;
mod prose;
mod quoting;
mod recipes;
mod reference;
mod row_cursor;
mod rows;
mod session;
mod settled;
mod suggestions;
mod table_page;
mod table_query;
mod value_view;

pub use reference::Reference;

use actix_web::middleware::from_fn;
use actix_web::web;

/// Registers the pages. They also handle every request that no earlier service handles, so register them last.
///
/// The application's data must contain an [`AppState`](branchyard_http_common::AppState) and a `Vec` of [`Reference`]s.
pub fn configure(config: &mut web::ServiceConfig) {
    let forms = web::FormConfig::default().limit(branchyard_http_common::MAX_FORM_BYTES);
    config.service(web::scope("").app_data(forms).wrap(from_fn(layout::dress)).configure(pages::routes));
}
