//! Reads the operations and responses that an OpenAPI document declares.

use serde_json::Value;

/// An operation of the document and its responses.
#[derive(Debug)]
pub struct DeclaredOperation {
    /// Operation id.
    pub id: String,
    /// Method, in uppercase.
    pub method: String,
    /// Path template below the base path of the API.
    pub path: String,
    /// All methods of the path, in uppercase.
    pub methods: Vec<String>,
    /// Names of its parameters.
    pub parameters: Vec<String>,
    /// Whether the operation has a JSON request body.
    pub has_json_body: bool,
    /// The declared responses.
    pub declared: Vec<Declared>,
}

/// A declared response: a status, and the key of an example if the status has examples.
#[derive(Debug, Clone)]
pub struct Declared {
    /// Status code.
    pub status: u16,
    /// Key of the example. For problem documents, the key is the error code.
    pub code: Option<String>,
    /// Summary of the example; empty if there is none.
    pub summary: String,
}

impl Declared {
    /// Returns the name of the response's snapshot.
    pub fn name(&self) -> String {
        let what = match (&self.code, self.status) {
            (Some(code), _) => code,
            (None, 304) => "unmodified",
            (None, _) => "success",
        };
        format!("{}-{what}", self.status)
    }
}

/// Returns the operations of a document. Removes the prefix `base` from their paths.
///
/// # Panics
/// Panics if the text is not an OpenAPI document.
pub fn operations(document: &str, base: &str) -> Vec<DeclaredOperation> {
    let document: Value = serde_json::from_str(document).unwrap();
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let methods: Vec<String> = item.as_object().unwrap().keys().map(|method| method.to_uppercase()).collect();
        for (method, operation) in item.as_object().unwrap() {
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let parameters = parameters.map(|parameter| resolved(&document, parameter)["name"].as_str().unwrap());
            all.push(DeclaredOperation {
                id: operation["operationId"].as_str().unwrap().to_owned(),
                method: method.to_uppercase(),
                path: path.strip_prefix(base).unwrap_or(path).to_owned(),
                methods: methods.clone(),
                parameters: parameters.map(str::to_owned).collect(),
                has_json_body: operation.pointer("/requestBody/content/application~1json").is_some(),
                declared: answers(&document, &operation["responses"]),
            });
        }
    }
    all
}

fn answers(document: &Value, responses: &Value) -> Vec<Declared> {
    let mut all = Vec::new();
    for (status, response) in responses.as_object().unwrap() {
        let status = status.parse().unwrap();
        let contents = resolved(document, response)["content"].as_object().into_iter().flatten();
        let examples = contents.filter_map(|(_, content)| content["examples"].as_object()).flatten();
        let named = examples.map(|(code, example)| {
            let summary = example["summary"].as_str().unwrap_or_default().to_owned();
            Declared { status, code: Some(code.clone()), summary }
        });
        let before = all.len();
        all.extend(named);
        if all.len() == before {
            all.push(Declared { status, code: None, summary: String::new() });
        }
    }
    all
}

fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let target = value["$ref"].as_str().map(|target| target.trim_start_matches('#'));
    target.map_or(value, |pointer| document.pointer(pointer).unwrap())
}
