//! Access to the database of a path.

use branchyard_domain::access::{DatabaseAccess, Level, Read};
use branchyard_domain::errors::AccessError;
use branchyard_http_common::{Call, Failure, Refusal};
use branchyard_problem_details::{ErrorCode, Problem};

use crate::said::Said;
use crate::wire::Place;

/// Access of a level to the database at `place`, which learns its stored spelling. `action` is what needs it, in words.
pub(crate) async fn access<L: Level>(
    call: &Call,
    place: &mut Place,
    action: &'static str,
) -> Result<DatabaseAccess<L>, Failure> {
    let (caller, owner, name) = (call.caller.clone(), place.owner.clone(), place.name.clone());
    let (locator, access) = call
        .read(move |hub| -> Result<_, Refusal> {
            if L::who(&caller).is_none() {
                return Err(Said(AccessError::SignInRequired).into());
            }
            let seen = hub.databases().access::<Read>(&caller, &owner, &name).map_err(Said)?;
            let locator = seen.database().locator.clone();
            let access = match hub.databases().access::<L>(&caller, &owner, &name) {
                Ok(access) => Ok(access),
                Err(AccessError::Denied(role)) => {
                    let text = format!("permission denied: {action} needs {role} on {locator}");
                    Err(Problem::new(ErrorCode::PermissionDenied, text))
                }
                Err(other) => return Err(Said(other).into()),
            };
            Ok((locator, access))
        })
        .await?;
    *place = Place { owner: locator.owner.to_string(), name: locator.name.to_string() };
    Ok(access?)
}
