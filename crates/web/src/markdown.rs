//! Markdown written by users: descriptions, comments, README documents.

use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, html};

use crate::format::Markup;

/// Renders Markdown as HTML. Raw HTML is shown as text, images become links so that nothing is loaded from other servers, and
/// link targets that could run a script are removed.
pub(crate) fn render(text: &str) -> Markup {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let events = Parser::new_ext(text, options).map(|event| match event {
        Event::Html(raw) | Event::InlineHtml(raw) => Event::Text(raw),
        Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
            Event::Start(Tag::Link { link_type, dest_url: followable(dest_url), title, id })
        }
        Event::Start(Tag::Image { dest_url, title, id, .. }) => Event::Start(Tag::Link {
            link_type: pulldown_cmark::LinkType::Inline,
            dest_url: followable(dest_url),
            title,
            id,
        }),
        Event::Start(Tag::Heading { level, id, classes, attrs }) => {
            Event::Start(Tag::Heading { level: below(level), id, classes, attrs })
        }
        Event::End(pulldown_cmark::TagEnd::Heading(level)) => Event::End(pulldown_cmark::TagEnd::Heading(below(level))),
        Event::End(pulldown_cmark::TagEnd::Image) => Event::End(pulldown_cmark::TagEnd::Link),
        other => other,
    });
    let mut page = String::with_capacity(text.len() * 3 / 2);
    html::push_html(&mut page, events);
    Markup::trusted(page)
}

/// Returns the next lower level. The page has the only heading of the first level.
fn below(level: HeadingLevel) -> HeadingLevel {
    match level {
        HeadingLevel::H1 => HeadingLevel::H2,
        HeadingLevel::H2 => HeadingLevel::H3,
        HeadingLevel::H3 => HeadingLevel::H4,
        HeadingLevel::H4 => HeadingLevel::H5,
        HeadingLevel::H5 | HeadingLevel::H6 => HeadingLevel::H6,
    }
}

/// Returns the URL if a browser can safely follow it, and `#` otherwise.
fn followable(address: CowStr<'_>) -> CowStr<'_> {
    let scheme = address.split_once(':').map(|(scheme, _)| scheme);
    let relative = scheme.is_none_or(|scheme| scheme.contains(['/', '?', '#']));
    let known =
        scheme.is_some_and(|scheme| ["https", "http", "mailto"].iter().any(|known| scheme.eq_ignore_ascii_case(known)));
    let plain = !address.chars().any(|c| c.is_control() || c.is_whitespace());
    if plain && (relative || known) { address } else { CowStr::Borrowed("#") }
}

#[cfg(test)]
mod tests {
    use super::render;

    #[test]
    fn prose_is_rendered() {
        assert_eq!(render("a **b** `c`").to_string(), "<p>a <strong>b</strong> <code>c</code></p>\n");
        assert_eq!(render("# A\n## B").to_string(), "<h2>A</h2>\n<h3>B</h3>\n");
        assert_eq!(render("[x](https://a.test)").to_string(), "<p><a href=\"https://a.test\">x</a></p>\n");
        assert_eq!(render("[x](/ada/rivers?a=b:c)").to_string(), "<p><a href=\"/ada/rivers?a=b:c\">x</a></p>\n");
    }

    #[test]
    fn nothing_in_it_runs_or_is_loaded() {
        let hostile = [
            "<script>alert(1)</script>",
            "a <img src=x onerror=alert(1)> b",
            "[x](javascript:alert(1))",
            "[x](JaVaScRiPt:alert(1))",
            "[x](java\tscript:alert(1))",
            "<javascript:alert(1)>",
            "[x](data:text/html,<script>)",
            "![x](https://evil.test/pixel.png)",
            "<div\nonclick=alert(1)>",
            "[x]: javascript:alert(1)\n\n[x]",
        ];
        for text in hostile {
            let page = render(text).to_string().to_lowercase();
            for bad in ["<script", "<img", "<div", "href=\"javascript", "href=\"data", "src="] {
                let in_text = page.replace("&lt;", "").contains(bad);
                assert!(
                    !page.contains(bad) || bad == "src=" && !in_text || bad == "src=" && page.contains("&lt;img"),
                    "{text}: {page}"
                );
            }
        }
    }
}
