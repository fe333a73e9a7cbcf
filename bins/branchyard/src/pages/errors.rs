//! The pages that problem documents point to.

use actix_web::{HttpResponse, web};
use branchyard_problem_details::ErrorCode;

use super::layout::{escape, html, inline, page};

/// `GET /docs/errors`
pub(super) async fn index() -> HttpResponse {
    let rows: String = ErrorCode::ALL
        .iter()
        .map(|code| {
            let (suffix, name) = (code.suffix(), code.as_str());
            let meaning = inline(code.explanation().meaning);
            format!(
                "<tr><td><a href=\"/docs/errors/{suffix}\"><code>{name}</code></a></td><td>{}</td><td>{meaning}</td></tr>",
                code.status()
            )
        })
        .collect();
    let table = format!(
        "<div class=\"scroll\"><table><thead><tr><th>Code</th><th>Status</th><th>Meaning</th></tr></thead><tbody>{rows}</tbody></table></div>"
    );
    html(page(
        "Errors",
        &format!("<main><p class=\"soft\"><a href=\"/docs/api/v2\">API v2</a></p><h1>Errors</h1>{table}</main>"),
    ))
}

/// `GET /docs/errors/{suffix}`
pub(super) async fn one(suffix: web::Path<String>) -> HttpResponse {
    let Some(code) = ErrorCode::from_suffix(&suffix) else {
        return HttpResponse::NotFound()
            .content_type("text/plain; charset=utf-8")
            .body("no such error; see /docs/errors\n");
    };
    let told = code.explanation();
    let parts = [
        ("What it means", told.meaning),
        ("What a client does", told.client),
        ("What the operator does", told.operator),
    ];
    let parts: String = parts.iter().map(|(title, text)| format!("<h2>{title}</h2><p>{}</p>", inline(text))).collect();
    let body = format!(
        "<main><p class=\"soft\"><a href=\"/docs/errors\">Errors</a></p><h1>{}</h1><p><code>{}</code>, status {}</p>{parts}</main>",
        escape(code.title()),
        code.as_str(),
        code.status()
    );
    html(page(code.title(), &body))
}
