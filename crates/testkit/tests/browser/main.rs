//! The pages in a real browser: flows over several pages, with JavaScript and without, and what assistive technology meets.
//!
//! Wants `chromium` and `chromedriver`. Where they are missing nothing is tested, unless `BRANCHYARD_TEST_REQUIRE_BROWSER` says
//! that this is a fault. `BRANCHYARD_TEST_AXE` names a file with axe-core, which then looks at every page.
//! `BRANCHYARD_TEST_SCREENSHOTS` names a folder that pictures of the pages are written to; `BRANCHYARD_TEST_PAGES` a part of the names of the
//! pages that are looked at, when not all shall be.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test stops where its set-up fails"
)]

mod chromium;
mod deployments;
mod flows;
mod gallery;
mod pulls;
mod workbench;
