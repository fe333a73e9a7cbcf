//! The pages in a real browser: flows over several pages, with JavaScript and without, and accessibility.
//!
//! Needs `chromium` and `chromedriver`. Without them, the tests pass without testing anything, unless `BRANCHYARD_TEST_REQUIRE_BROWSER`
//! is set. `BRANCHYARD_TEST_AXE` names a file with axe-core, which then checks every page. `BRANCHYARD_TEST_SCREENSHOTS` names a folder
//! for screenshots of the pages. `BRANCHYARD_TEST_PAGES` limits the visited pages to those whose name contains it.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test stops where its set-up fails"
)]

mod chromium;
mod deployments;
mod flows;
mod forks;
mod gallery;
mod grid;
mod oauth;
mod pulls;
mod table_editor;
mod workbench;
