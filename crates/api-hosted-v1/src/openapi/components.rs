//! Components of the document: the schemas, parameters, headers and responses that operations refer to.

use branchyard_http_common::NO_NUL_PATTERN;
use branchyard_openapi::{EndpointDocs, Schemas, drop_null, error_code, reference, security_schemes};
use serde_json::{Value, json};

use super::responses;
use crate::wire;

pub(super) fn all(operations: &[EndpointDocs], public_url: &str) -> Value {
    json!({
        "securitySchemes": security_schemes(public_url),
        "parameters": parameters(),
        "headers": headers(),
        "responses": responses::problems(),
        "schemas": schemas(operations),
    })
}

fn schemas(operations: &[EndpointDocs]) -> Value {
    let mut schemas = Schemas::default();
    macro_rules! add {
        ($($name:ident),+ $(,)?) => { $(schemas.add::<wire::$name>(&tidy);)+ };
    }
    add!(
        User,
        DeploymentOptions,
        Usage,
        Cost,
        Deployment,
        DeploymentSummary,
        DeploymentState,
        ExposeState,
        DeploymentInstance,
        InstanceState,
        Backup,
        DeploymentConfig,
        DatabaseVersions,
        ServiceWindow,
        LogLine,
        Metric,
        MetricData,
        Collaborator,
        DeploymentDatabase,
        Pull,
        Operation,
        OperationRef,
    );
    schemas.add_bodies(operations, &without_nul);
    schemas.insert("ErrorCode", error_code());
    schemas.insert("Problem", problem());
    schemas.insert("Meta", meta());
    schemas.into_value()
}

/// Removes the pattern that excludes NUL from texts, because the published document does not have the pattern.
fn without_nul(_: &str, schema: &mut Value) {
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for property in properties.values_mut().filter_map(Value::as_object_mut) {
        if property.get("pattern").is_some_and(|pattern| pattern == NO_NUL_PATTERN) {
            property.remove("pattern");
        }
    }
}

/// Returns the values that a field may have. The set is open to additions, so clients must accept unknown values.
fn words(name: &str, field: &str) -> Option<&'static [&'static str]> {
    Some(match (name, field) {
        ("Deployment" | "DeploymentSummary" | "DeploymentState" | "DeploymentInstance" | "InstanceState", "state")
        | ("DeploymentUsage", "state") => &["starting", "started", "stopping", "stopped"],
        ("Deployment" | "DeploymentSummary", "health") => {
            &["ok", "starting", "crash_loop", "disk_full", "stopping", "stopped"]
        }
        ("Deployment", "caller_role") | ("Collaborator", "role") => &["reader", "reader_and_pulls", "writer", "admin"],
        ("Backup", "kind") => &["nightly", "manual", "final"],
        ("CostItem", "kind") => &["compute", "storage"],
        ("Operation", "status") => &["queued", "running", "succeeded", "failed"],
        ("OperationError", "code") => &["EXPIRED", "FAILED", "INTERNAL"],
        ("ExposeState", "service") => &["remotesapi", "mcp"],
        _ => return None,
    })
}

/// Adds to a schema what the Rust types cannot express: optional fields are never `null`, times have the format `date-time`,
/// amounts have a pattern, and some fields have a set of values.
fn tidy(name: &str, schema: &mut Value) {
    let required: Vec<Value> = schema["required"].as_array().cloned().unwrap_or_default();
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for (field, property) in properties {
        let is_optional = !required.iter().any(|known| known == field);
        if is_optional {
            drop_null(property);
        }
        let is_time = field.ends_with("_at") || field.ends_with("_time") || field == "time";
        if is_time && property["type"] == "string" {
            property["format"] = "date-time".into();
        }
        if field.ends_with("_usd") && property["type"] == "string" {
            property["pattern"] = r"^\d+\.\d{9}$".into();
        }
        if let Some(words) = words(name, field) {
            let null = property["type"].as_array().is_some_and(|types| types.iter().any(|kind| kind == "null"));
            let mut allowed: Vec<Value> = words.iter().map(|word| (*word).into()).collect();
            if null {
                allowed.push(Value::Null);
            }
            property["enum"] = allowed.into();
        }
    }
}

fn problem() -> Value {
    let text = json!({"type": "string"});
    let amount = json!({"type": "string", "description": "Per month; with `SPENDING_LIMIT_EXCEEDED` only."});
    let place = json!({"type": "object", "required": ["detail"], "properties": {
        "pointer": text, "parameter": text, "detail": text,
    }});
    json!({
        "type": "object",
        "required": ["type", "title", "status", "detail", "instance", "code", "request_id"],
        "properties": {
            "type": {"type": "string", "format": "uri"},
            "title": text,
            "status": {"type": "integer"},
            "detail": text,
            "instance": text,
            "code": reference("schemas", "ErrorCode"),
            "request_id": text,
            "errors": {"type": "array", "maxItems": 100, "items": place},
            "limit_usd": amount,
            "committed_usd": amount,
            "requested_usd": amount,
        },
    })
}

fn meta() -> Value {
    json!({"type": "object", "properties": {
        "next_page_token": {"type": "string", "description": "Absent on the last page."},
        "prev_page_token": {"type": "string", "description": "For logs: token for the lines after this page, now or later."},
    }})
}

fn parameters() -> Value {
    let text = json!({"type": "string"});
    let time = json!({"type": "string", "format": "date-time"});
    let words = |all: &[&str]| json!({"type": "string", "enum": all});
    let parameter = |name: &str, place: &str, required: bool, schema: &Value, about: &str| json!({"name": name, "in": place, "required": required, "schema": schema, "description": about});
    let path = |name: &str, about: &str| parameter(name, "path", true, &text, about);
    let query = |name: &str, schema: &Value, about: &str| parameter(name, "query", false, schema, about);
    json!({
        "of_instance": query("instance_id", &text, "The instance. Default: the primary."),
        "owner": path("owner", "A user or organization, in any letter case."),
        "deployment": path("deployment", "Name of the deployment, in any letter case."),
        "instance_id": path("instance_id", "The `id` of an instance."),
        "backup_id": path("backup_id", "The `id` of a backup."),
        "database": path("database", "Name of a database of the deployment, in any letter case."),
        "metric": path("metric", "The `id` of a metric."),
        "username": path("username", "Name of a user, in any letter case."),
        "pull_id": path("pull_id", "The `id` of a pull request."),
        "operation_id": path("operation_id", "The `id` of an operation."),
        "cloud": parameter("cloud", "query", true, &text, "The id of a cloud."),
        "zone": query("zone", &text, "The id of a zone of the cloud."),
        "instance_type_id": query("instance_type_id", &text, "The id of an instance type; needs `zone`."),
        "month": query("month", &json!({"type": "string", "pattern": r"^\d{4}-\d{2}$"}), "The month. Default: the current month."),
        "state": query("state", &words(&["starting", "started", "stopping", "stopped"]), "Only deployments in this state."),
        "pull_state": query("state", &words(&["open", "closed", "merged"]), "Only pull requests in this state."),
        "query": query("query", &text, "Part of the title or of the creator's name."),
        "of_database": parameter("database", "query", true, &text, "The database."),
        "status": query("status", &words(&["queued", "running", "succeeded", "failed"]), "Only operations in this state."),
        "type": query("type", &text, "Only operations of this type."),
        "lines": query("lines", &json!({"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}), "Maximum number of lines."),
        "start_time": query("start_time", &time, "Start of the period."),
        "end_time": query("end_time", &time, "End of the period. Default: now."),
        "page_token": query("page_token", &text, "`next_page_token` of the previous page. If absent or empty, the first page is returned. Keep the filters unchanged."),
        "prev_page_token": query("prev_page_token", &text, "`prev_page_token` of a page. Returns the lines after that page."),
        "page_size": query("page_size", &json!({"type": "integer", "minimum": 1, "default": 30}), "Maximum number of items. Values above 100 count as 100."),
        "Idempotency-Key": parameter("Idempotency-Key", "header", false, &json!({"type": "string", "minLength": 1, "maxLength": 257}), "For 24 hours, repeating the request with the same key has no further effect."),
        "If-Match": parameter("If-Match", "header", false, &text, "Make the change only if the resource still has this ETag."),
    })
}

fn headers() -> Value {
    let text = |description: &str| json!({"description": description, "schema": {"type": "string"}});
    json!({
        "X-Request-Id": text("The id from the request if it has the right form; otherwise a new one."),
        "Cache-Control": text("`no-store` for answers with secrets; otherwise `private, no-cache`."),
        "Vary": text("The request headers that the answer depends on."),
        "RateLimit": text("Requests left and seconds until the reset, if rate limits are enabled."),
        "RateLimit-Policy": text("Quota and window in seconds, if rate limits are enabled."),
        "ETag": text("Strong entity tag. Send it as `If-None-Match` or `If-Match`."),
        "Location": text("Absolute URL of the created resource."),
        "Retry-After": json!({"description": "Whole seconds to wait before the next attempt.", "schema": {"type": "integer", "minimum": 0}}),
        "WWW-Authenticate": text("How to authenticate, and what was wrong with the credential."),
        "Allow": text("The methods of the route."),
        "Idempotent-Replayed": json!({"description": "This is the saved answer of the idempotency key.", "schema": {"type": "string", "const": "true"}}),
    })
}
