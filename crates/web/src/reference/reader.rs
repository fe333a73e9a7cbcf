//! Renders the operations of an OpenAPI document as HTML.

use branchyard_problem_details::ErrorCode;
use serde_json::Value;

use crate::format::escaped;
use crate::prose::{inline, prose};

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

pub(super) fn text(value: &Value) -> &str {
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
        other => format!("{other:#}"),
    };
    format!("<pre tabindex=\"0\"><code>{}</code></pre>", escaped(&shown))
}

/// Reads a document. All of its references point into the document itself.
pub(super) struct DocumentReader<'a> {
    pub(super) document: &'a Value,
    /// The public URL of the server, for the examples.
    pub(super) origin: &'a str,
}

impl<'a> DocumentReader<'a> {
    /// Returns links to all operations by tag, and the operations themselves.
    pub(super) fn all(&self) -> (String, String) {
        let (mut contents, mut sections) = (String::new(), String::new());
        for tag in items(&self.document["tags"]).filter_map(|tag| tag["name"].as_str()) {
            contents.push_str(&format!("<p class=\"label\">{}</p><ul>", escaped(tag)));
            sections.push_str(&format!("<h2>{}</h2>", escaped(tag)));
            for (path, method, operation) in self.operations().filter(|(_, _, operation)| operation["tags"][0] == tag) {
                let id = text(&operation["operationId"]);
                contents.push_str(&format!("<li><a href=\"#{id}\">{}</a></li>", escaped(text(&operation["summary"]))));
                sections.push_str(&self.operation(path, method, operation));
            }
            contents.push_str("</ul>");
        }
        (contents, sections)
    }

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
            escaped(text(&operation["summary"])),
            method.to_uppercase(),
            escaped(path),
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
            None => "Tokens are ignored.",
            Some(0) => "No token needed for public data.",
            Some(_) => "Requires a token.",
        }
    }

    fn parameters(&self, operation: &'a Value) -> String {
        let rows: String = items(&operation["parameters"])
            .map(|parameter| {
                let parameter = self.resolved(parameter);
                let required = if parameter["required"] == true { ", required" } else { "" };
                format!(
                    "<tr><td><code>{}</code></td><td>{}{required}</td><td>{}</td><td>{}</td></tr>",
                    escaped(text(&parameter["name"])),
                    escaped(text(&parameter["in"])),
                    self.kind(&parameter["schema"]),
                    inline(text(&parameter["description"]))
                )
            })
            .collect();
        if rows.is_empty() {
            rows
        } else {
            format!("<h4>Parameters</h4>{}", table(&["Name", "In", "Type", "Description"], &rows))
        }
    }

    fn request(&self, operation: &'a Value) -> String {
        let body = &operation["requestBody"];
        members(&body["content"])
            .map(|(media_type, content)| {
                let optional = if body["required"] == true { "" } else { " (optional)" };
                format!(
                    "<h4>Request body{optional}: <code>{}</code></h4>{}",
                    escaped(media_type),
                    self.fields(&content["schema"])
                )
            })
            .collect()
    }

    /// Renders the fields of an object, one level deep.
    fn fields(&self, schema: &'a Value) -> String {
        let mut rows = String::new();
        self.rows(self.resolved(schema), &mut rows);
        if rows.is_empty() { rows } else { table(&["Field", "Type", "Description"], &rows) }
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
                escaped(name),
                self.kind(property),
                inline(text(meaning))
            ));
        }
    }

    /// Describes a type and its constraints.
    fn kind(&self, schema: &'a Value) -> String {
        if let Some(name) = text(&schema["$ref"]).rsplit('/').next().filter(|name| !name.is_empty()) {
            let words = self.resolved(schema);
            return if words.get("enum").is_some() { self.kind(words) } else { escaped(name) };
        }
        if let Some(words) = schema["enum"].as_array() {
            let words = words.iter().map(|word| format!("<code>{}</code>", escaped(text(word))));
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
            Some(format!("{limit} <code>{}</code>", escaped(&value)))
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
        if items(&operation["parameters"]).any(|parameter| self.resolved(parameter)["name"] == "Prefer") {
            lines.push("-H 'Prefer: wait=20'".to_owned());
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
        format!("<h4>Example</h4><pre tabindex=\"0\"><code>{}</code></pre>", escaped(&lines.join(" \\\n  ")))
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
                format!("<p><code>{}</code></p>{fields}{examples}", escaped(media_type))
            })
            .collect();
        format!(
            "<h4>Response {status}: {}</h4>{}{bodies}",
            inline(text(&response["description"])),
            self.headers(response)
        )
    }

    fn headers(&self, response: &'a Value) -> String {
        let names: Vec<String> =
            members(&response["headers"]).map(|(name, _)| format!("<code>{}</code>", escaped(name))).collect();
        if names.is_empty() { String::new() } else { format!("<p class=\"soft\">Headers: {}</p>", names.join(", ")) }
    }

    fn problem(&self, status: &str, response: &'a Value) -> String {
        let codes = members(&response["content"]["application/problem+json"]["examples"]).map(|(name, _)| {
            let suffix = ErrorCode::ALL.iter().find(|code| code.as_str() == name).map_or("", |code| code.suffix());
            format!("<a href=\"/docs/errors/{suffix}\"><code>{}</code></a>", escaped(name))
        });
        let texts = members(&response["content"]["application/json"]["examples"])
            .map(|(_, example)| format!("<code>{}</code>", escaped(text(&example["summary"]))));
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
