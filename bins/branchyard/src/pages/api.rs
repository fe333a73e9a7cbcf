//! Each version of the API as a page, made from its OpenAPI document.

use std::sync::OnceLock;

use actix_web::{HttpResponse, web};
use branchyard_api_common::AppState;
use branchyard_problem_details::ErrorCode;
use serde_json::Value;

use super::layout::{escape, html, inline, page, prose};

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// `GET /docs/api/v2`
pub(super) async fn v2(state: web::Data<AppState>) -> HttpResponse {
    static MADE: OnceLock<String> = OnceLock::new();
    made(&MADE, branchyard_api_v2::openapi, branchyard_api_v2::BASE, &state.config.public_url)
}

/// `GET /docs/api/v1alpha1`
pub(super) async fn v1alpha1(state: web::Data<AppState>) -> HttpResponse {
    static MADE: OnceLock<String> = OnceLock::new();
    made(&MADE, branchyard_api_v1alpha1::openapi, branchyard_api_v1alpha1::BASE, &state.config.public_url)
}

/// `GET /docs/api/hosted-v1`
pub(super) async fn hosted_v1(settings: web::Data<branchyard_api_hosted_v1::Settings>) -> HttpResponse {
    static MADE: OnceLock<String> = OnceLock::new();
    made(&MADE, branchyard_api_hosted_v1::openapi, branchyard_api_hosted_v1::BASE, &settings.base_url)
}

fn made(page: &OnceLock<String>, openapi: fn() -> String, base: &str, origin: &str) -> HttpResponse {
    let page = page.get_or_init(|| {
        let document = serde_json::from_str(&openapi()).unwrap_or_default();
        render(&document, base, origin)
    });
    html(page.clone())
}

fn render(document: &Value, base: &str, origin: &str) -> String {
    let reader = Reader { document, origin };
    let (mut nav, mut sections) = (String::new(), String::new());
    for tag in items(&document["tags"]).filter_map(|tag| tag["name"].as_str()) {
        nav.push_str(&format!("<h2>{}</h2><ul>", escape(tag)));
        sections.push_str(&format!("<h2>{}</h2>", escape(tag)));
        for (path, method, operation) in reader.operations().filter(|(_, _, operation)| operation["tags"][0] == tag) {
            let id = text(&operation["operationId"]);
            nav.push_str(&format!("<li><a href=\"#{id}\">{}</a></li>", escape(text(&operation["summary"]))));
            sections.push_str(&reader.operation(path, method, operation));
        }
        nav.push_str("</ul>");
    }
    let info = &document["info"];
    let body = format!(
        "<div class=\"with-nav\"><nav aria-label=\"Operations\"><a href=\"/docs/errors\">Error codes</a>\
         <a href=\"{base}/openapi.json\">OpenAPI document</a>{nav}</nav>\
         <main><h1>{} {}</h1>{}<p>Base address: <code>{}{base}</code></p>{sections}</main></div>",
        escape(text(&info["title"])),
        escape(text(&info["version"])),
        prose(text(&info["description"])),
        escape(origin)
    );
    page(&format!("API {}", text(&info["version"])), &body)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

fn table(head: &[&str], rows: &str) -> String {
    let head: String = head.iter().map(|title| format!("<th>{title}</th>")).collect();
    format!("<div class=\"scroll\"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>")
}

fn pretty(value: &Value) -> String {
    let shown = match value {
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    };
    format!("<pre><code>{}</code></pre>", escape(&shown))
}

/// Reads a document whose references lead within it.
struct Reader<'a> {
    document: &'a Value,
    origin: &'a str,
}

impl<'a> Reader<'a> {
    fn operations(&self) -> impl Iterator<Item = (&'a str, &'static str, &'a Value)> + use<'a> {
        members(&self.document["paths"]).flat_map(|(path, item)| {
            METHODS.into_iter().filter_map(move |method| Some((path, method, item.get(method)?)))
        })
    }

    fn resolved(&self, value: &'a Value) -> &'a Value {
        let pointer = value["$ref"].as_str().and_then(|target| target.strip_prefix('#'));
        pointer.and_then(|pointer| self.document.pointer(pointer)).unwrap_or(value)
    }

    fn operation(&self, path: &str, method: &str, operation: &'a Value) -> String {
        let id = text(&operation["operationId"]);
        format!(
            "<article id=\"{id}\"><h3><a href=\"#{id}\">{}</a></h3>\
             <p class=\"route\"><span class=\"verb {method}\">{}</span> <code>{}</code></p>{}<p class=\"soft\">{}</p>{}{}{}{}</article>",
            escape(text(&operation["summary"])),
            method.to_uppercase(),
            escape(path),
            prose(text(&operation["description"])),
            self.credential(operation),
            self.parameters(operation),
            self.request(operation),
            self.curl(path, method, operation),
            self.answers(operation)
        )
    }

    fn credential(&self, operation: &Value) -> &'static str {
        match items(&operation["security"]).map(|way| way.as_object().map_or(0, serde_json::Map::len)).min() {
            None => "The credential is not looked at.",
            Some(0) => "Public data needs no token.",
            Some(_) => "Needs a token.",
        }
    }

    fn parameters(&self, operation: &'a Value) -> String {
        let rows: String = items(&operation["parameters"])
            .map(|parameter| {
                let parameter = self.resolved(parameter);
                let required = if parameter["required"] == true { ", required" } else { "" };
                format!(
                    "<tr><td><code>{}</code></td><td>{}{required}</td><td>{}</td><td>{}</td></tr>",
                    escape(text(&parameter["name"])),
                    escape(text(&parameter["in"])),
                    self.kind(&parameter["schema"]),
                    inline(text(&parameter["description"]))
                )
            })
            .collect();
        if rows.is_empty() {
            rows
        } else {
            format!("<h4>Parameters</h4>{}", table(&["Name", "In", "Type", "Meaning"], &rows))
        }
    }

    fn request(&self, operation: &'a Value) -> String {
        let body = &operation["requestBody"];
        members(&body["content"])
            .map(|(media_type, content)| {
                let optional = if body["required"] == true { "" } else { " (optional)" };
                format!(
                    "<h4>Request body{optional}: <code>{}</code></h4>{}",
                    escape(media_type),
                    self.fields(&content["schema"])
                )
            })
            .collect()
    }

    /// The fields of an object, one level deep.
    fn fields(&self, schema: &'a Value) -> String {
        let mut rows = String::new();
        self.rows(self.resolved(schema), &mut rows);
        if rows.is_empty() { rows } else { table(&["Field", "Type", "Meaning"], &rows) }
    }

    fn rows(&self, schema: &'a Value, rows: &mut String) {
        for part in items(&schema["allOf"]) {
            self.rows(self.resolved(part), rows);
        }
        for (name, property) in members(&schema["properties"]) {
            let required = items(&schema["required"]).any(|known| known == name);
            let required = if required { ", required" } else { "" };
            let meaning = property.get("description").unwrap_or(&self.resolved(property)["description"]);
            rows.push_str(&format!(
                "<tr><td><code>{}</code></td><td>{}{required}</td><td>{}</td></tr>",
                escape(name),
                self.kind(property),
                inline(text(meaning))
            ));
        }
    }

    /// A type in a few words, with its constraints.
    fn kind(&self, schema: &'a Value) -> String {
        if let Some(name) = text(&schema["$ref"]).rsplit('/').next().filter(|name| !name.is_empty()) {
            let words = self.resolved(schema);
            return if words.get("enum").is_some() { self.kind(words) } else { escape(name) };
        }
        if let Some(words) = schema["enum"].as_array() {
            let words = words.iter().map(|word| format!("<code>{}</code>", escape(text(word))));
            return words.collect::<Vec<_>>().join(" or ");
        }
        let choices = || items(&schema["oneOf"]).map(|choice| self.kind(choice)).collect::<Vec<_>>().join(" or ");
        let name = match &schema["type"] {
            Value::String(name) if name == "array" => format!("array of {}", self.kind(&schema["items"])),
            Value::String(name) => name.clone(),
            Value::Array(names) => names.iter().map(text).collect::<Vec<_>>().join(" or "),
            _ => choices(),
        };
        let limits = ["format", "minimum", "maximum", "minLength", "maxLength", "pattern", "default"];
        let limits = limits.iter().filter_map(|limit| {
            let value = schema.get(limit)?;
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            Some(format!("{limit} <code>{}</code>", escape(&value)))
        });
        std::iter::once(name).chain(limits).collect::<Vec<_>>().join(", ")
    }

    fn curl(&self, path: &str, method: &str, operation: &'a Value) -> String {
        let mut address = path
            .replace("{owner}", "ada")
            .replace("{database}", "rivers")
            .replace("{branch}", "feature%2Fx")
            .replace("{tag}", "v1")
            .replace("{pull_number}", "7")
            .replace("{pull_id}", "7")
            .replace("{from_branch}", "main")
            .replace("{to_branch}", "fix-7")
            .replace("{ref}", "main")
            .replace("{table}", "gauges")
            .replace("{username}", "ada");
        let required = items(&operation["parameters"]).map(|parameter| self.resolved(parameter));
        let required = required.filter(|parameter| parameter["in"] == "query" && parameter["required"] == true);
        let query: Vec<String> = required
            .map(|parameter| match text(&parameter["name"]) {
                "q" => "q=select%201".to_owned(),
                "from" => "from=v1".to_owned(),
                "to" => "to=main".to_owned(),
                name => format!("{name}=…"),
            })
            .collect();
        if !query.is_empty() {
            address = format!("{address}?{}", query.join("&"));
        }
        let mut lines = vec![match method {
            "get" => format!("curl '{}{address}'", self.origin),
            _ => format!("curl -X {} '{}{address}'", method.to_uppercase(), self.origin),
        }];
        if items(&operation["security"]).next().is_some() {
            lines.push("-H \"Authorization: Bearer $TOKEN\"".to_owned());
        }
        let content = &operation["requestBody"]["content"];
        for (name, part) in members(&content["multipart/form-data"]["example"]) {
            let value = if part.is_object() { part.to_string() } else { format!("@{name}") };
            lines.push(format!("-F '{name}={}'", value.replace('\'', "'\\''")));
        }
        if let Some(example) = content["application/json"].get("example") {
            lines.push("-H 'Content-Type: application/json'".to_owned());
            lines.push(format!("-d '{}'", example.to_string().replace('\'', "'\\''")));
        } else if content.get("application/octet-stream").is_some() {
            lines.push("--data-binary @part".to_owned());
        }
        format!("<h4>Example</h4><pre><code>{}</code></pre>", escape(&lines.join(" \\\n  ")))
    }

    fn answers(&self, operation: &'a Value) -> String {
        let (mut successes, mut problems) = (String::new(), String::new());
        for (status, response) in members(&operation["responses"]) {
            let response = self.resolved(response);
            if status.starts_with('2') || status.starts_with('3') {
                successes.push_str(&self.success(status, response));
            } else {
                problems.push_str(&self.problem(status, response));
            }
        }
        format!("{successes}<h4>Errors</h4>{}", table(&["Status", "Errors", "Headers"], &problems))
    }

    fn success(&self, status: &str, response: &'a Value) -> String {
        let bodies: String = members(&response["content"])
            .map(|(media_type, content)| {
                let whole = self.resolved(&content["schema"]);
                let data = &whole["properties"]["data"];
                let shown = if data.is_null() { whole } else { data };
                let item = if shown["type"] == "array" { &shown["items"] } else { shown };
                let choices = items(&item["oneOf"]).map(|choice| self.fields(choice));
                let fields: String = choices.chain([self.fields(item)]).collect();
                let named = members(&content["examples"]).map(|(_, example)| {
                    format!("<p>{}</p>{}", inline(text(&example["summary"])), pretty(&example["value"]))
                });
                let examples: String = named.chain(content.get("example").map(pretty)).collect();
                format!("<p><code>{}</code></p>{fields}{examples}", escape(media_type))
            })
            .collect();
        format!(
            "<h4>Answer {status}: {}</h4>{}{bodies}",
            inline(text(&response["description"])),
            self.headers(response)
        )
    }

    fn headers(&self, response: &'a Value) -> String {
        let names: Vec<String> =
            members(&response["headers"]).map(|(name, _)| format!("<code>{}</code>", escape(name))).collect();
        if names.is_empty() { String::new() } else { format!("<p class=\"soft\">Headers: {}</p>", names.join(", ")) }
    }

    fn problem(&self, status: &str, response: &'a Value) -> String {
        let codes = members(&response["content"]["application/problem+json"]["examples"]).map(|(name, _)| {
            let suffix = ErrorCode::ALL.iter().find(|code| code.as_str() == name).map_or("", |code| code.suffix());
            format!("<a href=\"/docs/errors/{suffix}\"><code>{}</code></a>", escape(name))
        });
        let texts = members(&response["content"]["application/json"]["examples"])
            .map(|(_, example)| format!("<code>{}</code>", escape(text(&example["summary"]))));
        let own = ["Allow", "Retry-After", "WWW-Authenticate"];
        let headers: Vec<String> = members(&response["headers"])
            .filter(|(name, _)| own.contains(name))
            .map(|(name, _)| format!("<code>{name}</code>"))
            .collect();
        format!(
            "<tr><td>{status}</td><td>{}</td><td>{}</td></tr>",
            codes.chain(texts).collect::<Vec<_>>().join(", "),
            headers.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::render;

    fn page(openapi: &str, base: &str) -> String {
        let document: serde_json::Value = serde_json::from_str(openapi).unwrap();
        let page = render(&document, base, "https://yard.test");
        let mut count = 0;
        for item in document["paths"].as_object().unwrap().values() {
            for operation in item.as_object().unwrap().values() {
                let id = operation["operationId"].as_str().unwrap();
                assert!(page.contains(&format!("<article id=\"{id}\">")), "{id}");
                assert!(page.contains(&format!("href=\"#{id}\"")), "{id}");
                count += 1;
            }
        }
        assert_eq!(page.matches("<h4>Example</h4>").count(), count);
        assert_eq!(page.matches("<h4>Errors</h4>").count(), count);
        assert!(page.contains(&format!("href=\"{base}/openapi.json\"")));
        assert!(page.contains(&format!("curl 'https://yard.test{base}/user'")));
        for foreign in ["<script", "src=", "=\"http://", "@import", "url(", " style=", "onclick"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        page
    }

    #[test]
    fn every_operation_of_v2_is_on_its_page_with_its_parts() {
        let page = page(&branchyard_api_v2::openapi(), branchyard_api_v2::BASE);
        assert!(page.contains("/docs/errors/idempotency-key-reused"));
    }

    #[test]
    fn every_operation_of_hosted_v1_is_on_its_page_with_its_parts() {
        let page = page(&branchyard_api_hosted_v1::openapi(), branchyard_api_hosted_v1::BASE);
        assert!(page.contains("/docs/errors/spending-limit-exceeded"));
    }

    #[test]
    fn every_operation_of_v1alpha1_is_on_its_page_with_its_parts() {
        let page = page(&branchyard_api_v1alpha1::openapi(), branchyard_api_v1alpha1::BASE);
        assert!(page.contains("<code>branch not found: &lt;name&gt;</code>"), "errors by their texts");
        assert!(page.contains("curl 'https://yard.test/csv/ada/rivers/main/gauges'"));
        let upload = page.split("<article id=\"upload\">").nth(1).unwrap();
        assert!(upload.contains("-F 'file=@file'"), "uploads are forms");
        assert!(!page.contains("ada/{"), "every path is filled in");
    }
}
