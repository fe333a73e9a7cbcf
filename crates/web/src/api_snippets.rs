//! The request of a page as programs send it to the API.

use serde_json::json;

use crate::quoting::{in_shell, quoted};

/// A statement that makes the first table of a database.
const FIRST_TABLE: &str = "create table notes (id integer primary key, note text not null)";

/// A request of the API in several languages.
#[derive(Debug)]
pub(crate) struct ApiSnippets {
    pub(crate) all: Vec<ApiSnippet>,
    /// Whether the request needs a token.
    pub(crate) needs_token: bool,
}

/// A request in one language.
#[derive(Debug)]
pub(crate) struct ApiSnippet {
    /// Name of the language or program.
    pub(crate) label: &'static str,
    /// The same as part of an id.
    pub(crate) id: &'static str,
    pub(crate) text: String,
}

impl ApiSnippets {
    /// Returns the request that runs a statement at a ref. `url` is that of the API's SQL reads.
    pub(crate) fn of_query(url: &str, at: &str, statement: &str, needs_token: bool) -> Self {
        let snippet = |label, id, text| ApiSnippet { label, id, text };
        let all = vec![
            snippet("curl", "curl", curl(url, at, statement, needs_token)),
            snippet("Python", "python", python(url, at, statement, needs_token)),
            snippet("JavaScript", "javascript", javascript(url, at, statement, needs_token)),
        ];
        Self { all, needs_token }
    }
}

/// The line of curl that sends the token.
pub(crate) const TOKEN_HEADER: &str = "  -H \"Authorization: Bearer $BRANCHYARD_TOKEN\" \\\n";

/// Returns the request that sends a JSON document with curl, and waits for the operation that it starts.
fn curl_post(url: &str, document: &serde_json::Value) -> String {
    let (url, document) = (in_shell(url), in_shell(&document.to_string()));
    let headers = "  -H 'Content-Type: application/json' -H 'Prefer: wait=20' \\\n";
    format!("curl -sS {url} \\\n{TOKEN_HEADER}{headers}  -d {document}")
}

/// Returns the request that creates a database. `api` is the address of the API.
pub(crate) fn create_database(api: &str, owner: &str) -> String {
    let wanted = json!({"owner": owner, "name": "first", "visibility": "private"});
    curl_post(&format!("{api}/databases"), &wanted)
}

/// Returns the request that makes a first table on a branch. `database` is the address of the database in the API.
pub(crate) fn create_table(database: &str, branch: &str) -> String {
    let wanted = json!({"from_branch": branch, "to_branch": branch, "q": FIRST_TABLE});
    curl_post(&format!("{database}/sql-writes"), &wanted)
}

fn curl(url: &str, at: &str, statement: &str, needs_token: bool) -> String {
    let token = if needs_token { TOKEN_HEADER } else { "" };
    let (url, at) = (in_shell(url), in_shell(&format!("ref={at}")));
    let statement = in_shell(&format!("q={statement}"));
    format!("curl -sSG {url} \\\n{token}  --data-urlencode {at} \\\n  --data-urlencode {statement}")
}

fn python(url: &str, at: &str, statement: &str, needs_token: bool) -> String {
    let (imports, headers) = match needs_token {
        true => (
            "import json\nimport os\n",
            ", headers={\"Authorization\": \"Bearer \" + os.environ[\"BRANCHYARD_TOKEN\"]}",
        ),
        false => ("import json\n", ""),
    };
    let (url, at, statement) = (quoted(url), quoted(at), quoted(statement));
    [
        imports,
        "from urllib.parse import urlencode\nfrom urllib.request import Request, urlopen\n\n",
        &format!("query = urlencode({{\"ref\": {at}, \"q\": {statement}}})\n"),
        &format!("with urlopen(Request({url} + \"?\" + query{headers})) as response:\n"),
        "    result = json.load(response)[\"data\"]\n",
        "for row in result[\"rows\"]:\n    print(row)",
    ]
    .concat()
}

fn javascript(url: &str, at: &str, statement: &str, needs_token: bool) -> String {
    let headers = match needs_token {
        true => ", { headers: { Authorization: `Bearer ${process.env.BRANCHYARD_TOKEN}` } }",
        false => "",
    };
    let (url, at, statement) = (quoted(url), quoted(at), quoted(statement));
    [
        &format!("const query = new URLSearchParams({{ ref: {at}, q: {statement} }});\n"),
        &format!("const response = await fetch({url} + \"?\" + query{headers});\n"),
        "const { data } = await response.json();\n",
        "console.log(data.rows);",
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_cannot_leave_their_quotes() {
        let hostile = "SELECT 'it''s', \"$HOME\", `x` -- \\\n\u{2028}";
        let snippets = ApiSnippets::of_query("https://yard.test/api/v2/databases/a/b/sql", "main", hostile, true);
        let [curl, python, javascript] = &snippets.all[..] else { panic!("three languages") };
        assert!(curl.text.contains(r#"'q=SELECT '\''it'\'''\''s'\'', "$HOME", `x` -- "#), "{}", curl.text);
        for snippet in [python, javascript] {
            assert!(snippet.text.contains(r#""SELECT 'it''s', \"$HOME\", `x` -- \\\n\u2028""#), "{}", snippet.text);
        }
    }
}
