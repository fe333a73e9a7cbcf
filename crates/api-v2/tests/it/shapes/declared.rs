//! What the committed OpenAPI document declares.

use serde_json::Value;

const DOCUMENT: &str = include_str!("../../../openapi/v2.json");

/// An operation and its answers.
pub(super) struct Operation {
    pub(super) id: String,
    pub(super) method: String,
    /// Template below the API.
    pub(super) path: String,
    /// Methods its path has.
    pub(super) methods: Vec<String>,
    pub(super) parameters: Vec<String>,
    pub(super) has_json_body: bool,
    /// Whether `Idempotency-Key` has a meaning.
    pub(super) takes_keys: bool,
    pub(super) declared: Vec<Declared>,
}

/// One answer: a status, and the code where it is a problem.
#[derive(Debug, Clone)]
pub(super) struct Declared {
    pub(super) status: u16,
    pub(super) code: Option<String>,
}

impl Declared {
    /// The name of its snapshot.
    pub(super) fn name(&self) -> String {
        let what = match (&self.code, self.status) {
            (Some(code), _) => code,
            (None, 304) => "unmodified",
            (None, _) => "success",
        };
        format!("{}-{what}", self.status)
    }
}

/// What a name promises: the status and the code.
pub(super) fn promise(name: &str) -> (u16, Option<&str>) {
    let mut words = name.split('-');
    let status = words.next().unwrap().parse().unwrap();
    (status, words.next().filter(|code| code.chars().all(|c| c.is_ascii_uppercase() || c == '_')))
}

pub(super) fn operations() -> Vec<Operation> {
    let document: Value = serde_json::from_str(DOCUMENT).unwrap();
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let methods: Vec<String> = item.as_object().unwrap().keys().map(|method| method.to_uppercase()).collect();
        for (method, operation) in item.as_object().unwrap() {
            let parameters: Vec<String> = operation["parameters"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|parameter| resolved(&document, parameter)["name"].as_str().unwrap().to_owned())
                .collect();
            all.push(Operation {
                id: operation["operationId"].as_str().unwrap().to_owned(),
                method: method.to_uppercase(),
                path: path.strip_prefix(branchyard_api_v2::BASE).unwrap().to_owned(),
                methods: methods.clone(),
                takes_keys: parameters.iter().any(|name| name == "Idempotency-Key"),
                parameters,
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
        let codes = &resolved(document, response)["content"]["application/problem+json"]["examples"];
        match codes.as_object() {
            None => all.push(Declared { status, code: None }),
            Some(codes) => all.extend(codes.keys().map(|code| Declared { status, code: Some(code.clone()) })),
        }
    }
    all
}

fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let target = value["$ref"].as_str().map(|target| target.trim_start_matches('#'));
    target.map_or(value, |pointer| document.pointer(pointer).unwrap())
}
