use actix_web::HttpResponse;
use branchyard_domain::entities::Visibility;
use branchyard_domain::usecases::NewDatabase;
use branchyard_domain::values::{DatabaseName, Description};
use branchyard_http_common::{Fields, HandlerError};

use super::word;
use crate::legacy_errors::LegacyError;
use crate::request::{LegacyRequest, signed_in};
use crate::wire::{self, Done};

const VISIBILITIES: &[(&str, Visibility)] = &[("public", Visibility::Public), ("private", Visibility::Private)];

/// Handles `POST /database`.
pub(crate) async fn create_database(asked: LegacyRequest) -> HttpResponse {
    let echo = wire::Created {
        description: asked.sent("description"),
        repository_owner: asked.sent("ownerName"),
        repository_name: asked.sent("repoName"),
        visibility: asked.sent("visibility"),
    };
    asked.answer(create(&asked).await.map(Done::new), &echo)
}

async fn create(asked: &LegacyRequest) -> Result<wire::Created, HandlerError> {
    let call = asked.call()?;
    let user = signed_in(call)?;
    let wanted = call.open_body(new_database)?;
    let view = call.write(move |hub| hub.databases().create(&user, wanted, None).map_err(LegacyError)).await?;
    let database = view.database;
    Ok(wire::Created {
        description: database.description.unwrap_or_default(),
        repository_owner: database.locator.owner.to_string(),
        repository_name: database.locator.name.to_string(),
        visibility: match database.visibility {
            Visibility::Public => "public",
            Visibility::Private => "private",
        }
        .to_owned(),
    })
}

fn new_database(fields: &Fields<'_>) -> Option<NewDatabase> {
    let owner = fields.required_string("ownerName");
    let name = fields.required_as("repoName", DatabaseName::parse);
    let visibility = fields.required_as("visibility", |text| word(text, VISIBILITIES));
    let description = fields.optional_as("description", |text| Description::parse(text));
    Some(NewDatabase { owner: owner?, name: name?, visibility: visibility?, description, default_branch: None })
}
