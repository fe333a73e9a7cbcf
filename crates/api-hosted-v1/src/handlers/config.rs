use branchyard_deployments::SettingView;
use branchyard_deployments::access::{Manage, Observe};
use branchyard_http_common::{ApiResponse, Fields, Json, RequestContext};

use super::{HandlerResult, unchanged};
use crate::convert;

/// Characters of a value at most.
const LONGEST: usize = 1_024;

/// `GET …/config`
pub(crate) async fn get_config(call: RequestContext) -> HandlerResult {
    let access = call.deployment::<Observe>().await?;
    let views = call.read(move |hub| hub.deployments().settings(&access)).await?;
    Ok(ApiResponse::resource(200, &convert::config(&views)))
}

/// `PATCH …/config`
pub(crate) async fn update_config(call: RequestContext) -> HandlerResult {
    let access = call.deployment::<Manage>().await?;
    let changes = call.open_body(overrides)?;
    let if_match = call.if_match();
    let views = call
        .write(move |hub| {
            let as_seen = |views: &[SettingView]| unchanged(if_match.as_ref(), &convert::config(views));
            hub.deployments().set(&access, changes, Some(&as_seen))
        })
        .await?;
    Ok(ApiResponse::resource(200, &convert::config(&views)))
}

/// Keys with a text, or null to take the default again.
fn overrides(fields: &Fields<'_>) -> Option<Vec<(String, Option<String>)>> {
    let Some(value) = fields.get("overrides") else {
        fields.fault("overrides", "is required");
        return None;
    };
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
