//! Renders our own texts as HTML: the descriptions in API documents and of error codes.

use crate::format::escaped;

/// Renders text in which backquotes mark code and empty lines separate paragraphs.
pub(crate) fn prose(text: &str) -> String {
    text.split("\n\n").map(|paragraph| format!("<p>{}</p>", inline(paragraph))).collect()
}

/// Renders a single paragraph, without the `<p>` element.
pub(crate) fn inline(text: &str) -> String {
    let pieces = text.split('`').enumerate();
    pieces
        .map(|(at, piece)| if at % 2 == 1 { format!("<code>{}</code>", escaped(piece)) } else { escaped(piece) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{inline, prose};

    #[test]
    fn prose_is_escaped_and_marks_code() {
        assert_eq!(inline("send `a<b>` & go"), "send <code>a&#60;b&#62;</code> &#38; go");
        assert_eq!(prose("a\n\nb"), "<p>a</p><p>b</p>");
    }
}
