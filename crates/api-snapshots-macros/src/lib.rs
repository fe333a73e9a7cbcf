#![doc = include_str!("../README.md")]
//!
//! Makes a test of every snapshot, so that snapshots are compared in parallel and fail by name.

use std::path::Path;

use branchyard_api_snapshots::{SnapshotTest, blocks, operations, snapshot_tests as tests_of};
use proc_macro::{Group, Span, TokenStream, TokenTree};

/// Makes a test of every response that an OpenAPI document declares, and of every block of a file of steps. The test calls the
/// annotated function with the id of the operation and the name of the snapshot, and is named after both.
///
/// ```ignore
/// #[snapshot_tests(document = "openapi/v2.json", steps = "tests/it/shapes/steps.txt")]
/// fn shape_is_as_committed(operation: &str, name: &str) {}
/// ```
///
/// makes `fn createTag_201_success() { shape_is_as_committed("createTag", "201-success") }` and so on. Paths start at the folder of
/// the package. `also = "PARAMETER: NAME"` adds a test of this name for every operation with this parameter.
#[proc_macro_attribute]
pub fn snapshot_tests(arguments: TokenStream, function: TokenStream) -> TokenStream {
    match source(arguments, &function) {
        // Lints of the caller do not concern generated items.
        Ok(source) => function.into_iter().chain(respanned(source, Span::mixed_site())).collect(),
        Err(message) => format!("compile_error!({message:?});").parse().unwrap_or_default(),
    }
}

fn source(arguments: TokenStream, function: &TokenStream) -> Result<TokenStream, String> {
    let arguments = Arguments::parse(arguments)?;
    let root = std::env::var("CARGO_MANIFEST_DIR").map_err(|_| "cargo does not name the package".to_owned())?;
    let read = |path: &str| {
        let path = Path::new(&root).join(path).display().to_string();
        std::fs::read_to_string(&path).map(|text| (path.clone(), text)).map_err(|error| format!("{path}: {error}"))
    };
    let (document, steps) = (read(&arguments.document)?, read(&arguments.steps)?);
    let run = name_of(function)?;
    let also = arguments.also.as_deref().map(|also| also.split_once(": ").ok_or("`also` is \"PARAMETER: NAME\""));
    // Cargo compiles the tests again when one of the files changes.
    let mut source = format!("const _: [&str; 2] = [include_str!({:?}), include_str!({:?})];", document.0, steps.0);
    for SnapshotTest { operation, name } in
        tests_of(&operations(&document.1, ""), &blocks(steps.1.leak()), also.transpose()?)
    {
        let test = format!("{operation}_{name}").replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        source.push_str(&format!("#[test] fn {test}() {{ {run}({operation:?}, {name:?}) }}"));
    }
    source.parse().map_err(|error| format!("{error}"))
}

#[derive(Default)]
struct Arguments {
    document: String,
    steps: String,
    also: Option<String>,
}

impl Arguments {
    /// Parses `key = "value"` pairs.
    fn parse(arguments: TokenStream) -> Result<Self, String> {
        let mut parsed = Self::default();
        let tokens: Vec<TokenTree> = arguments.into_iter().collect();
        for pair in tokens.split(|token| token.to_string() == ",").filter(|pair| !pair.is_empty()) {
            let texts: Vec<String> = pair.iter().map(ToString::to_string).collect();
            let [key, "=", value] = &texts.iter().map(String::as_str).collect::<Vec<_>>()[..] else {
                return Err(format!("`key = \"value\"` is expected, not `{}`", texts.concat()));
            };
            let value = value.trim_matches('"').to_owned();
            match *key {
                "document" => parsed.document = value,
                "steps" => parsed.steps = value,
                "also" => parsed.also = Some(value),
                other => return Err(format!("unknown argument `{other}`; known are document, steps, also")),
            }
        }
        Ok(parsed)
    }
}

fn name_of(function: &TokenStream) -> Result<String, String> {
    let mut tokens = function.clone().into_iter().skip_while(|token| token.to_string() != "fn");
    tokens.nth(1).map(|name| name.to_string()).ok_or_else(|| "a function is expected".to_owned())
}

fn respanned(tokens: TokenStream, span: Span) -> TokenStream {
    let respan = |token| match token {
        TokenTree::Group(group) => Group::new(group.delimiter(), respanned(group.stream(), span)).into(),
        mut token => {
            TokenTree::set_span(&mut token, span);
            token
        }
    };
    tokens.into_iter().map(respan).collect()
}
