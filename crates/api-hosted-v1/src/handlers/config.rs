use branchyard_deployments::SettingView;
use branchyard_deployments::access::{Manage, Observe};
use branchyard_http_common::{ApiResponse, Endpoint, Fields, Json, RequestBody, RequestContext, section};

use super::{HandlerResult, unchanged};
use crate::convert;
use branchyard_http_common::methods::{get, patch};
use branchyard_openapi::Success;
use serde_json::json;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section(
        "Settings",
        "/deployments/{owner}/{deployment}/config",
        vec![
            get("", "getConfig", "All settings", get_config).responds(200, Success::One("DeploymentConfig"), &[404]),
            patch("", "updateConfig", "Change settings, all or none", update_config).json(&UPDATE_CONFIG).responds(
                200,
                Success::One("DeploymentConfig"),
                &[400, 403, 404, 412, 413, 415, 422],
            ),
        ],
    )
}

/// Maximum length of a value, in characters.
const LONGEST: usize = 1_024;

/// Handles `GET …/config`.
pub(crate) async fn get_config(call: RequestContext) -> HandlerResult {
    let access = call.deployment::<Observe>().await?;
    let views = call.read(move |hub| hub.deployments().settings(&access)).await?;
    Ok(ApiResponse::resource(200, &convert::config(&views)))
}

/// Handles `PATCH …/config`.
pub(crate) async fn update_config(call: RequestContext) -> HandlerResult {
    let access = call.deployment::<Manage>().await?;
    let changes = call.json(&UPDATE_CONFIG)?;
    let if_match = call.if_match();
    let views = call
        .write(move |hub| {
            let as_seen = |views: &[SettingView]| unchanged(if_match.as_ref(), &convert::config(views));
            hub.deployments().set(&access, changes, Some(&as_seen))
        })
        .await?;
    Ok(ApiResponse::resource(200, &convert::config(&views)))
}

const UPDATE_CONFIG: RequestBody<Vec<(String, Option<String>)>> = RequestBody::open("UpdateConfigRequest", overrides)
    .example(|| json!({"overrides": {"listener_max_connections": "500", "behavior_read_only": null}}));

/// Reads the changed settings. `None` restores the default of a key.
fn overrides(fields: &Fields<'_>) -> Option<Vec<(String, Option<String>)>> {
    fields.describe_object(
        || json!({"description": "Settings to change. Null restores the default; absent keys stay unchanged."}),
    );
    let value = fields.required_json("overrides", || {
        json!({"type": "object", "additionalProperties": {"type": ["string", "null"]}, "propertyNames": {"type": "string"}})
    })?;
    let Json::Object(members) = value else {
        fields.fault("overrides", format!("must be an object, not {}", value.kind()));
        return None;
    };
    let mut changes = Vec::new();
    let mut fit = true;
    for (key, value) in members {
        let well_formed =
            (1..=128).contains(&key.len()) && key.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_'));
        let fault = match value {
            _ if !well_formed => Some("is not named by 1 to 128 of a-z, 0-9 and _".to_owned()),
            Json::Null => None,
            Json::String(text) if text.chars().count() <= LONGEST => None,
            Json::String(_) => Some(format!("is longer than {LONGEST} characters")),
            other => Some(format!("must be a string or null, not {}", other.kind())),
        };
        if let Some(text) = fault {
            fields.fault(&format!("overrides/{key}"), text);
            fit = false;
        }
        let value = if let Json::String(text) = value { Some(text.clone()) } else { None };
        changes.push((key.clone(), value));
    }
    fit.then_some(changes)
}
