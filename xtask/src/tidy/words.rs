//! Words and openings that comments, the pages in `docs`, the templates of the pages and the descriptions of the OpenAPI
//! documents must not use. They hide which role acts, or what a function does.
//!
//! Code in backticks, fenced blocks and the targets of links are not checked.

mod comments;

use super::at;
use crate::finding::Finding;
use std::mem;

const VERB: &str = "begin with a verb in the third person: Returns, Creates, Parses, Records, Reports";
const ROLE: &str = "name the role: the caller, an administrator, the worker, the lease holder";
const FACT: &str =
    "state what happens: the server answers 403, the caller receives an error, the method returns `false`";

const FIX: &str = "write fix";

/// Words that are refused wherever they stand, each with the habit to follow.
const WORDS: &[(&str, &str)] = &[
    ("somebody", ROLE),
    ("nobody", ROLE),
    ("anybody", ROLE),
    ("everybody", ROLE),
    ("whoever", ROLE),
    ("stranger", ROLE),
    ("strangers", ROLE),
    ("told", FACT),
    ("mend", FIX),
    ("mends", FIX),
    ("mended", FIX),
];

/// Verbs that may not begin a sentence, or a clause after `;` or `:`.
const OPENINGS: &[&str] = &["gives", "tells"];

/// Punctuation that may stand between the end of one sentence and the first word of the next.
const AROUND: &[char] = &[' ', '(', ')', '[', '"', '\'', '*', '_', '–', '—'];

/// Returns the findings in the comments of a Rust file.
pub(super) fn source(file: &str, text: &str) -> Vec<Finding> {
    let mut prose = Prose::default();
    let mut last = None;
    for comment in comments::scan(text) {
        // A comment continues on the next line if it stands there alone and has the same marker.
        let continues = comment.alone && last == Some((comment.line - 1, comment.marker));
        if !continues {
            prose.end();
            prose.fenced = false;
        }
        prose.line(comment.line, comment.text);
        last = comment.alone.then_some((comment.line, comment.marker));
    }
    prose.findings(file)
}

/// Returns the findings in a page of Markdown.
pub(super) fn page(file: &str, text: &str) -> Vec<Finding> {
    let mut prose = Prose::default();
    for (index, line) in text.lines().enumerate() {
        prose.line(index + 1, line);
    }
    prose.findings(file)
}

/// Returns the findings in a template of a page. Each text between two characters of its markup is a paragraph.
pub(super) fn template(file: &str, text: &str) -> Vec<Finding> {
    let mut prose = Prose::default();
    for (index, line) in text.lines().enumerate() {
        for part in line.split(['<', '>', '{', '}', '"']) {
            prose.line(index + 1, part);
            prose.end();
        }
    }
    prose.findings(file)
}

/// Returns the findings in the descriptions and summaries of an OpenAPI document, which has one value per line.
pub(super) fn document(file: &str, text: &str) -> Vec<Finding> {
    let mut prose = Prose::default();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        let value = ["\"description\": ", "\"summary\": "].iter().find_map(|name| line.strip_prefix(name));
        for part in value.unwrap_or_default().split("\\n") {
            prose.line(index + 1, part.trim_matches(['"', ',']));
            prose.end();
        }
    }
    prose.findings(file)
}

/// The prose of a file, split into paragraphs as in Markdown.
#[derive(Default)]
struct Prose {
    paragraphs: Vec<Paragraph>,
    open: Paragraph,
    fenced: bool,
}

/// Text that may wrap, with the offset at which each of its lines begins.
#[derive(Default)]
struct Paragraph {
    text: String,
    lines: Vec<(usize, usize)>,
}

impl Prose {
    fn line(&mut self, number: usize, line: &str) {
        let line = line.trim();
        if line.starts_with("```") {
            self.fenced = !self.fenced;
            self.end();
        } else if self.fenced {
            // Code.
        } else if line.starts_with('|') {
            // Each cell of a table is a paragraph. A `|` in code separates nothing.
            self.end();
            for cell in without_code(line).split('|') {
                self.open.push(number, cell.trim());
                self.end();
            }
        } else {
            let content = without_marker(line);
            if content.is_empty() || content.len() < line.len() {
                self.end();
            }
            self.open.push(number, content);
            if line.starts_with('#') {
                self.end();
            }
        }
    }

    /// Ends the open paragraph, if there is one.
    fn end(&mut self) {
        let paragraph = mem::take(&mut self.open);
        if !paragraph.text.trim().is_empty() {
            self.paragraphs.push(paragraph);
        }
    }

    fn findings(mut self, file: &str) -> Vec<Finding> {
        self.end();
        self.paragraphs.iter().flat_map(|paragraph| paragraph.findings(file)).collect()
    }
}

impl Paragraph {
    fn push(&mut self, line: usize, text: &str) {
        self.lines.push((self.text.len(), line));
        self.text.push_str(text);
        self.text.push(' ');
    }

    /// Returns the number of the line that holds the offset.
    fn line_at(&self, offset: usize) -> usize {
        self.lines.iter().rev().find(|(start, _)| *start <= offset).map_or(1, |(_, line)| *line)
    }

    fn findings(&self, file: &str) -> Vec<Finding> {
        let text = without_targets(&without_code(&self.text));
        let mut findings = Vec::new();
        let mut end = 0;
        for (start, word) in words(&text) {
            let before = &text[end..start];
            let first = end == 0;
            end = start + word.len();
            let begins_sentence = first || follows(before, &['.', '!', '?']);
            let begins_clause = begins_sentence || follows(before, &[';', ':']);
            let lower = word.to_lowercase();
            let refused = WORDS.iter().find(|(refused, _)| lower == *refused);
            let (what, habit) = if let Some((_, habit)) = refused {
                (format!("the word `{word}`"), *habit)
            } else if begins_clause && OPENINGS.contains(&lower.as_str()) {
                (format!("a sentence or clause that begins with `{word}`"), VERB)
            } else if begins_sentence && word == "Who" && is_statement(&text[end..]) {
                ("a statement that begins with `Who`".to_owned(), ROLE)
            } else {
                continue;
            };
            findings.push(at(file, self.line_at(start), &what, habit));
        }
        findings
    }
}

/// Returns `true` if the text between two words ends a sentence or a clause with one of these marks.
fn follows(between: &str, marks: &[char]) -> bool {
    let ended = between.trim_end_matches(AROUND);
    ended.ends_with(marks) && between[ended.len()..].contains(' ')
}

/// Returns `true` if the rest of a sentence has words and does not end with a question mark.
fn is_statement(rest: &str) -> bool {
    let ends = rest.char_indices().find(|(at, c)| {
        let next = rest[at + c.len_utf8()..].trim_start_matches([')', '"', '*', '_']);
        ".!?".contains(*c) && (next.is_empty() || next.starts_with(' '))
    });
    let sentence = ends.map_or(rest, |(at, _)| &rest[..at]);
    words(sentence).next().is_some() && !matches!(ends, Some((_, '?')))
}

/// Returns each word with its offset.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut end = 0;
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter_map(move |word| {
        let start = end;
        end = start + word.len() + text[start + word.len()..].chars().next().map_or(0, char::len_utf8);
        (!word.is_empty()).then_some((start, word))
    })
}

/// Replaces code in backticks by a word of the same length, so that offsets stay and a sentence may still begin with it.
fn without_code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('`') {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let fence = &rest[..rest.len() - rest.trim_start_matches('`').len()];
        let Some(length) = rest[fence.len()..].find(fence) else {
            break;
        };
        let length = length + 2 * fence.len();
        out.push_str(&"x".repeat(length));
        rest = &rest[length..];
    }
    out.push_str(rest);
    out
}

/// Replaces the targets of `[text](target)` by spaces.
fn without_targets(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("](") {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let length = rest.find(')').map_or(rest.len(), |end| end + 1);
        out.push_str(&" ".repeat(length));
        rest = &rest[length..];
    }
    out.push_str(rest);
    out
}

/// Removes the marker of a heading, a quotation or a list item.
fn without_marker(line: &str) -> &str {
    let rest = line.trim_start_matches(['#', '>']).trim_start();
    let number = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let item = match number {
        0 => ["- ", "* ", "+ "].iter().find_map(|marker| rest.strip_prefix(marker)),
        _ => rest[number..].strip_prefix(". "),
    };
    item.unwrap_or(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_page(text: &str) -> Vec<String> {
        page("docs/a.md", text).iter().map(ToString::to_string).collect()
    }

    fn in_source(text: &str) -> Vec<String> {
        source("src/a.rs", text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_word_is_found_with_its_place_and_habit() {
        for (word, habit) in WORDS {
            let found = in_source(&format!("fn a() {{}}\n// The server and {word}'s row.\n"));
            assert_eq!(found.len(), 1, "{word}");
            assert!(found[0].starts_with("src/a.rs:2: "), "{}", found[0]);
            assert!(found[0].ends_with(habit), "{}", found[0]);
            assert_eq!(on_page(&format!("# A page\n\nNo ({word}).\n")).len(), 1, "{word}");
        }
        assert_eq!(in_source("// A storyteller, a stranger_id, an untold number.\n"), Vec::<String>::new());
    }

    #[test]
    fn openings_are_found_where_they_begin_something() {
        let bad = [
            "Gives the head.",
            "Waits for it; gives the head.",
            "One sentence. Tells the caller.",
            "(Gives the head.)",
            "**Two:** gives the head.",
            "Ends here. [Gives](a.md) the head.",
        ];
        for text in bad {
            assert_eq!(on_page(text).len(), 1, "{text}");
            assert_eq!(in_source(&format!("    /// {text}\n")).len(), 1, "{text}");
            assert!(on_page(text)[0].contains("Returns"), "{text}");
        }
        for text in ["The worker gives up.", "`Gives` is a name.", "`next` gives a row.", "A row, which tells it."] {
            assert_eq!(on_page(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn templates_and_documents_are_checked() {
        let text = "<p class=\"a\">{% if b %}Ask nobody.{% endif %}</p>\n{% call c::field(d, \"Gives e\") %}\n<p>{{ told }}</p>\n";
        let found: Vec<String> = template("a.html", text).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("a.html:1: ") && found[1].starts_with("a.html:2: "), "{found:?}");
        let text = "{\n  \"description\": \"One.\\n\\nGives b.\",\n  \"summary\": \"For somebody\",\n  \"name\": \"told\"\n}\n";
        let found: Vec<String> = document("a.json", text).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("a.json:2: ") && found[1].starts_with("a.json:3: "), "{found:?}");
    }

    #[test]
    fn who_begins_questions_only() {
        for text in
            ["Who owns it, writes it.", "It ends. Who is it? An owner. Who owns it may write.", "# Who may what"]
        {
            assert_eq!(on_page(text).len(), 1, "{text}");
        }
        for text in ["Who owns it?", "A role who writes.", "Who", "(Who is it?) An owner.", "Who reads\na.b of it?"] {
            assert_eq!(on_page(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn sentences_wrap_over_lines() {
        assert_eq!(in_source("/// A page that the port\n/// gives back.\n"), Vec::<String>::new());
        let found = in_source("/// A page\n/// of rows. Gives\n/// none.\n");
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("src/a.rs:2: "), "{}", found[0]);
        // Another marker, list item or table cell begins a new paragraph.
        for text in ["/// A row\n// gives\n", "fn a() {} // A row\n// gives\n", "//! - A row\n//! - gives\n"] {
            assert_eq!(in_source(text).len(), 1, "{text}");
        }
        for text in ["1. a row\n2. gives\n", "| a | row |\n|---|---|\n| a row | gives |\n", "# A row\ngives\n"] {
            assert_eq!(on_page(text).len(), 1, "{text}");
        }
    }

    #[test]
    fn code_is_not_checked() {
        let text =
            "Say `nobody`, ``a ` told``, `two\nstrangers`.\n\n```\nwhoever\n```\n[a](b.md#told)\n| `a | told` |\n";
        assert_eq!(on_page(text), Vec::<String>::new());
        assert_eq!(in_source("/// ```\n/// // told\n/// ```\nfn told() {}\n"), Vec::<String>::new());
        // Code without an end hides nothing.
        assert_eq!(on_page("A ` and nobody.").len(), 1);
        assert_eq!(in_source("/// ```\nfn a() {}\n/// told\n").len(), 1);
    }
}
