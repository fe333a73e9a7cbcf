//! Access to the database of a path, with the error texts of v1alpha1.

use branchyard_domain::access::{DatabaseAccess, Level, Read};
use branchyard_domain::errors::AccessError;
use branchyard_http_common::{ApiError, HandlerError, RequestContext};
use branchyard_problem_details::{ErrorCode, Problem};

use crate::legacy_errors::LegacyError;
use crate::request::not_authenticated;
use crate::wire::Place;

/// Returns the caller's access to the database at `place`, and replaces `place` by the spelling that is stored. `action` names the
/// action in the text of a refusal.
pub(crate) async fn access<L: Level>(
    call: &RequestContext,
    place: &mut Place,
    action: &'static str,
) -> Result<DatabaseAccess<L>, HandlerError> {
    let (caller, owner, name) = (call.caller.clone(), place.owner.clone(), place.name.clone());
    let (locator, access) = call
        .read(move |hub| -> Result<_, ApiError> {
            if L::who(&caller).is_none() {
                return Err(LegacyError(AccessError::SignInRequired).into());
            }
            let seen = hub.databases().access::<Read>(&caller, &owner, &name).map_err(LegacyError)?;
            let locator = seen.database().locator.clone();
            let access = match hub.databases().access::<L>(&caller, &owner, &name) {
                Ok(access) => Ok(access),
                Err(AccessError::Denied(role)) => {
                    let text = format!("permission denied: {action} needs {role} on {locator}");
                    Err(Problem::new(ErrorCode::PermissionDenied, text))
                }
                // SQL for users only: the database is visible, so its spelling may be shown.
                Err(AccessError::SignInRequired) => Err(not_authenticated()),
                Err(other) => return Err(LegacyError(other).into()),
            };
            Ok((locator, access))
        })
        .await?;
    *place = Place { owner: locator.owner.to_string(), name: locator.name.to_string() };
    Ok(access?)
}
