//! Programs that run what pages show, as it is shown.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::browser::{Page, unescaped};

/// The Python with the packages that recipes need, and with the programs beside it. `cargo xtask ci` installs it.
const PYTHON: &str = "BRANCHYARD_TEST_RECIPES_PYTHON";
/// Set where the shell, Python, Node and R have to be there.
const REQUIRED: &str = "BRANCHYARD_TEST_REQUIRE_RECIPES";

/// Returns the code with this id on a page.
pub(super) fn code(page: &Page, id: &str) -> String {
    let (_, rest) =
        page.text.split_once(&format!("<code id=\"{id}\">")).unwrap_or_else(|| panic!("no {id} in {}", page.text));
    unescaped(rest.split("</code>").next().unwrap())
}

/// A folder in which programs run, with a token in their environment.
pub(super) struct Workplace {
    folder: TempDir,
    token: String,
}

impl Workplace {
    pub(super) fn new(token: &str) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), token: token.to_owned() }
    }

    /// Returns the path of a file in the folder.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs code of a language and returns what it prints. Returns `None`, and says so, if its program is missing and not required.
    pub(super) fn run(&self, language: &str, code: &str) -> Option<String> {
        match language {
            "curl" | "shell" => self.output("sh", &["-c", code], ""),
            "python" => self.output("python3", &["-c", code], ""),
            "javascript" => self.output("node", &["--input-type=module", "-e", code], ""),
            "pandas" => self.with_packages("pandas, pyarrow", code),
            "openpyxl" => self.with_packages("openpyxl", code),
            "r" => self.output("Rscript", &["--vanilla", "-"], code),
            "duckdb" => self.duckdb(code),
            _ => panic!("no program for {language}"),
        }
    }

    /// Runs a program with arguments and an input.
    fn output(&self, program: &str, arguments: &[&str], input: &str) -> Option<String> {
        let found = self.start(program.as_ref(), arguments, input);
        if found.is_none() {
            assert!(std::env::var_os(REQUIRED).is_none(), "{program} is required here, and is not there");
            eprintln!("no {program}: what pages show for it was not run");
        }
        found
    }

    fn start(&self, program: &Path, arguments: &[&str], input: &str) -> Option<String> {
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(self.folder.path())
            .envs([("BRANCHYARD_TOKEN", self.token.as_str()), ("LC_ALL", "C.UTF-8"), ("PYTHONUTF8", "1")])
            .envs([("NO_PROXY", "*"), ("no_proxy", "*")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .ok()?;
        // A program that does not read its input may have ended.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} {arguments:?} {input}\n{errors}", program.display());
        Some(String::from_utf8(output.stdout).unwrap())
    }

    /// Runs Python code that needs packages.
    fn with_packages(&self, packages: &str, code: &str) -> Option<String> {
        let installed = std::env::var_os(PYTHON);
        let python = PathBuf::from(installed.clone().unwrap_or_else(|| OsString::from("python3")));
        let import = format!("import {packages}");
        let has_packages =
            || Command::new(&python).args(["-c", &import]).output().is_ok_and(|run| run.status.success());
        if installed.is_none() && !has_packages() {
            eprintln!("no {packages} for Python: what pages show for it was not run");
            return None;
        }
        Some(self.start(&python, &["-c", code], "").expect("python starts"))
    }

    /// Runs statements of DuckDB, with the extension that reads over HTTP.
    fn duckdb(&self, code: &str) -> Option<String> {
        let Some(python) = std::env::var_os(PYTHON).map(PathBuf::from) else {
            eprintln!("{PYTHON} is not set: the recipe of DuckDB was not run");
            return None;
        };
        let find = "import importlib.util, pathlib; \
                    package = pathlib.Path(importlib.util.find_spec('duckdb_extension_httpfs').origin).parent; \
                    print(*package.glob('extensions/*/httpfs.duckdb_extension'))";
        let extension = self.start(&python, &["-c", find], "").expect("python starts");
        let load = format!("LOAD '{}'", extension.trim());
        let arguments = ["-csv", "-no-init", "-cmd", load.as_str()];
        Some(self.start(&python.with_file_name("duckdb"), &arguments, code).expect("duckdb starts"))
    }
}
