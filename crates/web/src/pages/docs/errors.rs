//! `/docs/errors`: the pages that the `type` of problem documents links to.

use askama::Template;
use branchyard_problem_details::{ErrorCode, Explanation};

use crate::error_page::PageError;
use crate::format::Markup;
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::prose;

#[derive(Template)]
#[template(path = "docs/errors.html")]
struct ErrorsPage {
    shell: LayoutContext,
    codes: &'static [ErrorCode],
}

#[derive(Template)]
#[template(path = "docs/error.html")]
struct ErrorDocsPage {
    shell: LayoutContext,
    code: ErrorCode,
    explanation: Explanation,
}

fn inline(text: &str) -> Markup {
    Markup::trusted(prose::inline(text))
}

/// `GET /docs/errors`
pub(crate) async fn list(visit: PageContext) -> PageResult {
    visit.page(|shell| ErrorsPage { shell, codes: ErrorCode::ALL })
}

/// `GET /docs/errors/{suffix}`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let code = ErrorCode::from_suffix(&visit.segment("suffix")).ok_or_else(PageError::nothing_here)?;
    visit.page(|shell| ErrorDocsPage { shell, code, explanation: code.explanation() })
}
