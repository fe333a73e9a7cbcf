//! Recipes that open a table, or a whole database, in the programs that people analyze data with.
//!
//! A recipe never contains a token: programs read it from the environment.

use crate::api_snippets::TOKEN_HEADER;
use crate::paths;
use crate::quoting::{in_duckdb, in_shell, quoted};

/// The name of a file that a recipe writes has at most this many characters, without its extension.
const STEM: usize = 60;

/// What a recipe opens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecipeSource<'a> {
    /// The origin of the server, such as `https://yard.example`.
    pub(crate) origin: &'a str,
    /// The path of the database.
    pub(crate) database: &'a str,
    /// The version. Empty for the default branch.
    pub(crate) at: &'a str,
    /// Whether the request needs a token.
    pub(crate) needs_token: bool,
}

/// A recipe for one program.
#[derive(Debug)]
pub(crate) struct Recipe {
    /// The name of the program.
    pub(crate) label: &'static str,
    /// The same as part of an id.
    pub(crate) id: &'static str,
    /// What to do with the text.
    pub(crate) hint: String,
    /// The code, or the address to paste.
    pub(crate) text: String,
}

impl RecipeSource<'_> {
    /// Returns the recipes of a table or view.
    pub(crate) fn of_table(&self, table: &str) -> Vec<Recipe> {
        let url = |format: &str| self.url(format, table);
        vec![
            recipe("Python", "python", "Needs Python 3 and no packages.", self.python(&url("csv"))),
            recipe("pandas", "pandas", "Needs the packages pandas and pyarrow.", self.pandas(&url("parquet"))),
            recipe("R", "r", R_HINT, self.r(&url("csv"))),
            recipe("DuckDB", "duckdb", DUCKDB_HINT, self.duckdb(&url("parquet"))),
            Recipe { label: "Excel", id: "excel", hint: self.excel_hint(), text: url("xlsx") },
            recipe("Shell", "shell", "Downloads a CSV file.", self.curl(&url("csv"), &file_name(table, "csv"))),
        ]
    }

    /// Returns the recipes of all tables. `name` is the name of the database.
    pub(crate) fn of_database(&self, name: &str) -> Vec<Recipe> {
        let (url, file) = (self.url("sqlite", ""), file_name(name, "sqlite"));
        let hint = "Downloads a SQLite file and lists its tables.";
        vec![
            recipe("Python", "python", hint, self.python_sqlite(&url, &file)),
            recipe(
                "Shell",
                "shell",
                "Downloads a SQLite file, which any SQLite program opens.",
                self.curl(&url, &file),
            ),
        ]
    }

    /// Returns the address of an export in the API. All but the origin is percent-encoded, so that no language has anything to escape.
    fn url(&self, format: &str, table: &str) -> String {
        let path = format!("{}/api/v2/databases{}/export", self.origin, self.database);
        paths::with_query(&path, &[("format", format), ("table", table), ("ref", self.at)])
    }

    /// Returns the lines of Python that make a request, and the modules that they need besides `urllib.request`.
    fn python_request(&self, url: &str) -> (&'static str, String) {
        let request = format!("request = Request({})\n", quoted(url));
        match self.needs_token {
            true => ("import os\n", format!("{request}request.add_header(\"Authorization\", {PYTHON_TOKEN})\n")),
            false => ("", request),
        }
    }

    fn python(&self, url: &str) -> String {
        let (imports, request) = self.python_request(url);
        [
            "import csv\nimport io\n",
            imports,
            "from urllib.request import Request, urlopen\n\n",
            &request,
            "with urlopen(request) as response:\n",
            "    rows = list(csv.DictReader(io.TextIOWrapper(response, \"utf-8\", newline=\"\")))\n",
            "for row in rows[:10]:\n    print(row)",
        ]
        .concat()
    }

    fn python_sqlite(&self, url: &str, file: &str) -> String {
        let ((imports, request), file) = (self.python_request(url), quoted(file));
        [
            imports,
            "import shutil\nimport sqlite3\nfrom urllib.request import Request, urlopen\n\n",
            &request,
            &format!("with urlopen(request) as response, open({file}, \"wb\") as file:\n"),
            "    shutil.copyfileobj(response, file)\n",
            &format!("database = sqlite3.connect({file})\n"),
            "for (name,) in database.execute(\"select name from sqlite_master where type = 'table'\"):\n",
            "    print(name)",
        ]
        .concat()
    }

    fn pandas(&self, url: &str) -> String {
        let url = quoted(url);
        if !self.needs_token {
            return format!("import pandas as pd\n\ntable = pd.read_parquet({url})\nprint(table.head(10))");
        }
        [
            "import os\nimport pandas as pd\n\n",
            &format!("headers = {{\"Authorization\": {PYTHON_TOKEN}}}\n"),
            &format!("table = pd.read_parquet({url}, storage_options=headers)\n"),
            "print(table.head(10))",
        ]
        .concat()
    }

    fn r(&self, url: &str) -> String {
        let (url, options) = (quoted(url), "check.names = FALSE, encoding = \"UTF-8\"");
        if !self.needs_token {
            return format!("rows <- read.csv({url}, {options})\nhead(rows, 10)");
        }
        [
            "token <- Sys.getenv(\"BRANCHYARD_TOKEN\")\n",
            &format!("address <- url({url}, headers = c(Authorization = paste(\"Bearer\", token)))\n"),
            &format!("rows <- read.csv(address, {options})\n"),
            "head(rows, 10)",
        ]
        .concat()
    }

    fn duckdb(&self, url: &str) -> String {
        let read = format!("FROM read_parquet({}) LIMIT 10;", in_duckdb(url));
        if !self.needs_token {
            return read;
        }
        let scope = in_duckdb(&format!("{}/", self.origin));
        [
            "CREATE SECRET branchyard (\n    TYPE http,\n    BEARER_TOKEN getenv('BRANCHYARD_TOKEN'),\n",
            &format!("    SCOPE {scope}\n);\n{read}"),
        ]
        .concat()
    }

    fn excel_hint(&self) -> String {
        let steps = "Choose Data, Get Data, From Other Sources, From Web, and paste this address.";
        match self.needs_token {
            true => {
                format!("{steps} In Advanced, add the HTTP header Authorization with the value Bearer and your token.")
            }
            false => steps.to_owned(),
        }
    }

    fn curl(&self, url: &str, file: &str) -> String {
        let token = if self.needs_token { TOKEN_HEADER } else { "" };
        format!("curl -fsS -o {} \\\n{token}  {}", in_shell(file), in_shell(url))
    }
}

/// The value of the header with the token, in Python.
const PYTHON_TOKEN: &str = "\"Bearer \" + os.environ[\"BRANCHYARD_TOKEN\"]";
const R_HINT: &str = "R guesses the types of columns: colClasses = \"character\" keeps texts such as 007.";
const DUCKDB_HINT: &str = "For the duckdb command. It loads its extension httpfs at the first use.";

fn recipe(label: &'static str, id: &'static str, hint: &str, text: String) -> Recipe {
    Recipe { label, id, hint: hint.to_owned(), text }
}

/// Returns a name for a file that every system accepts.
fn file_name(stem: &str, extension: &str) -> String {
    let plain: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(STEM).collect();
    format!("{plain}.{extension}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ODD: &str = "it's \"odd\" $HOME `x` \\ é\n%41?#&";

    fn source(needs_token: bool) -> RecipeSource<'static> {
        RecipeSource { origin: "https://yard.test", database: "/ada/rivers", at: "feature/it's", needs_token }
    }

    #[test]
    fn addresses_have_nothing_to_escape() {
        for recipe in source(true).of_table(ODD).iter().chain(&source(true).of_database("rivers")) {
            let rest = recipe.text.split_once("https://yard.test/api/v2/").unwrap().1;
            let address = rest.split(['\'', '"']).next().unwrap();
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%/?&=".contains(&byte);
            assert!(address.bytes().all(is_plain), "{address}");
            assert!(address.ends_with("ref=feature%2Fit%27s"), "{address}");
        }
    }

    #[test]
    fn tokens_are_read_from_the_environment_and_only_if_needed() {
        for (needs_token, recipes) in
            [(true, source(true)), (false, source(false))].map(|(is, of)| (is, of.of_table("t")))
        {
            for recipe in recipes.iter().filter(|recipe| recipe.id != "excel") {
                assert_eq!(recipe.text.contains("BRANCHYARD_TOKEN"), needs_token, "{}", recipe.text);
            }
        }
    }

    #[test]
    fn files_have_plain_names() {
        assert_eq!(file_name("a/b 'c'", "csv"), "a_b__c_.csv");
        assert_eq!(file_name(&"x".repeat(200), "csv").len(), STEM + 4);
    }
}
