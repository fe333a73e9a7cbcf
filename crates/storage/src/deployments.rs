//! Deployments and their collaborators.

use branchyard_deployments::entities::{
    Deployment, DeploymentCollaborator, DeploymentLocator, DeploymentRole, RunState,
};
use branchyard_deployments::ports::{DeploymentCollaboratorRepository, DeploymentRepository};
use branchyard_deployments::values::{DeploymentId, DeploymentName, Settings};
use branchyard_domain::ports::{MetadataError, OperationState};
use branchyard_domain::values::{AccountId, OwnerName, Timestamp};
use diesel::prelude::*;

use crate::collaborators::CollaboratorRow;
use crate::connection::AnyConnection;
use crate::convert::{Read, StoredWord, all, count, limit, one, read, time};
use crate::error::StoreError;
use crate::json;
use crate::schema::{accounts, deployment_collaborators, deployment_operations, deployments};
use crate::transaction::SqlTransaction;

type Result<T> = std::result::Result<T, MetadataError>;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = deployments)]
struct DeploymentRow {
    id: String,
    owner_id: String,
    owner_name: String,
    name: String,
    name_key: String,
    state: String,
    cloud: String,
    zone: String,
    node: String,
    created_by: String,
    created_at: i64,
    details: String,
    version: i64,
    removed_at: Option<i64>,
    deleted_at: Option<i64>,
}

fn row(deployment: &Deployment) -> Read<DeploymentRow> {
    Ok(DeploymentRow {
        id: deployment.id.to_string(),
        owner_id: deployment.owner_id.to_string(),
        owner_name: deployment.locator.owner.to_string(),
        name: deployment.locator.name.to_string(),
        name_key: deployment.locator.name.key(),
        state: deployment.state.word().to_owned(),
        cloud: deployment.cloud.clone(),
        zone: deployment.zone.clone(),
        node: deployment.node.clone(),
        created_by: deployment.created_by.to_string(),
        created_at: deployment.created_at.as_micros(),
        details: json::from_deployment(deployment)?,
        version: deployment.version,
        removed_at: deployment.removed_at.map(Timestamp::as_micros),
        deleted_at: deployment.deleted_at.map(Timestamp::as_micros),
    })
}

fn deployment(row: DeploymentRow) -> Read<Deployment> {
    let flat = Deployment {
        id: read("deployments.id", row.id)?,
        owner_id: read("deployments.owner_id", row.owner_id)?,
        locator: DeploymentLocator {
            owner: read("deployments.owner_name", row.owner_name)?,
            name: read("deployments.name", row.name)?,
        },
        state: read("deployments.state", row.state)?,
        cloud: row.cloud,
        zone: row.zone,
        node: row.node,
        created_by: read("deployments.created_by", row.created_by)?,
        created_at: time(row.created_at),
        databases: Vec::new(),
        origin: None,
        settings: Settings::default(),
        expose_stats: false,
        public_tls: false,
        keeps_version: false,
        database_version: None,
        disabled: None,
        last_error: None,
        version: row.version,
        removed_at: row.removed_at.map(time),
        deleted_at: row.deleted_at.map(time),
    };
    json::to_deployment(&row.details, flat)
}

fn collaborator((user_id, name, role, added_at): CollaboratorRow) -> Read<DeploymentCollaborator> {
    Ok(DeploymentCollaborator {
        user_id: read("deployment_collaborators.user_id", user_id)?,
        username: read("accounts.name", name)?,
        role: read("deployment_collaborators.role", role)?,
        added_at: time(added_at),
    })
}

macro_rules! collaborators_of {
    ($deployment:expr) => {
        deployment_collaborators::table
            .inner_join(accounts::table.on(accounts::id.eq(deployment_collaborators::user_id)))
            .filter(deployment_collaborators::deployment_id.eq($deployment.to_string()))
            .select((
                deployment_collaborators::user_id,
                accounts::name,
                deployment_collaborators::role,
                deployment_collaborators::added_at,
            ))
    };
}

fn get_collaborator(
    conn: &mut AnyConnection,
    deployment: DeploymentId,
    user: AccountId,
) -> std::result::Result<Option<DeploymentCollaborator>, StoreError> {
    let found: Option<CollaboratorRow> = collaborators_of!(deployment)
        .filter(deployment_collaborators::user_id.eq(user.to_string()))
        .first(conn)
        .optional()?;
    one(found, collaborator)
}

impl DeploymentRepository for SqlTransaction {
    fn add(&mut self, deployment: &Deployment) -> Result<()> {
        self.run_unless_taken("add a deployment", |conn| {
            diesel::insert_into(deployments::table).values(row(deployment)?).execute(conn)?;
            Ok(())
        })
    }

    fn by_name(&mut self, owner: &OwnerName, name: &DeploymentName) -> Result<Option<Deployment>> {
        self.run("find a deployment", |conn| {
            // A deleted organization owned no deployments, so at most one account with this name has any.
            let found: Option<DeploymentRow> = deployments::table
                .inner_join(accounts::table.on(accounts::id.eq(deployments::owner_id)))
                .filter(accounts::name_key.eq(owner.key()))
                .filter(accounts::deleted_at.is_null())
                .filter(deployments::name_key.eq(name.key()))
                .filter(deployments::deleted_at.is_null())
                .select(DeploymentRow::as_select())
                .first(conn)
                .optional()?;
            one(found, self::deployment)
        })
    }

    fn identity(&mut self, owner: &OwnerName, name: &DeploymentName) -> Result<Option<(DeploymentId, AccountId)>> {
        self.run("find the id of a deployment", |conn| {
            let found: Option<(String, String)> = deployments::table
                .inner_join(accounts::table.on(accounts::id.eq(deployments::owner_id)))
                .filter(accounts::name_key.eq(owner.key()))
                .filter(accounts::deleted_at.is_null())
                .filter(deployments::name_key.eq(name.key()))
                .filter(deployments::deleted_at.is_null())
                .filter(deployments::removed_at.is_null())
                .select((deployments::id, deployments::owner_id))
                .first(conn)
                .optional()?;
            one(found, |(id, owner)| Ok((read("deployments.id", id)?, read("deployments.owner_id", owner)?)))
        })
    }

    fn get(&mut self, id: DeploymentId) -> Result<Option<Deployment>> {
        self.run("read a deployment", |conn| {
            let found: Option<DeploymentRow> =
                deployments::table.find(id.to_string()).select(DeploymentRow::as_select()).first(conn).optional()?;
            one(found, self::deployment)
        })
    }

    fn update(&mut self, deployment: &Deployment) -> Result<bool> {
        self.run("change a deployment", |conn| {
            let row = row(deployment)?;
            let same = deployments::table.find(&row.id).filter(deployments::version.eq(row.version));
            let changed = diesel::update(same)
                .set((
                    deployments::state.eq(row.state),
                    deployments::cloud.eq(row.cloud),
                    deployments::zone.eq(row.zone),
                    deployments::details.eq(row.details),
                    deployments::removed_at.eq(row.removed_at),
                    deployments::deleted_at.eq(row.deleted_at),
                    deployments::version.eq(row.version + 1),
                ))
                .execute(conn)?;
            Ok(changed > 0)
        })
    }

    fn list(
        &mut self,
        owner: AccountId,
        state: Option<RunState>,
        before: Option<DeploymentId>,
        most: usize,
    ) -> Result<Vec<Deployment>> {
        self.run("list deployments", |conn| {
            let mut query = deployments::table
                .filter(deployments::owner_id.eq(owner.to_string()))
                .filter(deployments::removed_at.is_null())
                .into_boxed();
            if let Some(state) = state {
                query = query.filter(deployments::state.eq(state.word()));
            }
            if let Some(before) = before {
                query = query.filter(deployments::id.lt(before.to_string()));
            }
            let rows: Vec<DeploymentRow> =
                query.order(deployments::id.desc()).limit(limit(most)).select(DeploymentRow::as_select()).load(conn)?;
            all(rows, deployment)
        })
    }

    fn count_active(&mut self, owner: AccountId) -> Result<u64> {
        self.run("count deployments", |conn| {
            let rows = deployments::table
                .filter(deployments::owner_id.eq(owner.to_string()))
                .filter(deployments::state.ne(RunState::Stopped.word()))
                .count()
                .get_result(conn)?;
            Ok(count(rows))
        })
    }

    fn busy(&mut self, node: &str) -> Result<Vec<DeploymentId>> {
        self.run("find busy deployments", |conn| {
            let unsettled = [OperationState::Queued.word(), OperationState::Running.word()];
            let pending: Vec<String> = deployment_operations::table
                .inner_join(deployments::table.on(deployments::id.eq(deployment_operations::deployment_id)))
                .filter(deployment_operations::state.eq_any(unsettled).and(deployments::node.eq(node)))
                .select(deployment_operations::deployment_id)
                .load(conn)?;
            let mut ids: Vec<String> = deployments::table
                .filter(deployments::state.ne(RunState::Stopped.word()).and(deployments::node.eq(node)))
                .select(deployments::id)
                .load(conn)?;
            ids.extend(pending);
            ids.sort_unstable();
            ids.dedup();
            all(ids, |id| read("deployments.id", id))
        })
    }
}

impl DeploymentCollaboratorRepository for SqlTransaction {
    fn put(&mut self, deployment: DeploymentId, user: AccountId, role: DeploymentRole, at: Timestamp) -> Result<bool> {
        self.run("put a collaborator of a deployment", |conn| {
            let key = (deployment.to_string(), user.to_string());
            let changed = diesel::update(deployment_collaborators::table.find(key))
                .set(deployment_collaborators::role.eq(role.word()))
                .execute(conn)?;
            if changed > 0 {
                return Ok(false);
            }
            diesel::insert_into(deployment_collaborators::table)
                .values((
                    deployment_collaborators::deployment_id.eq(deployment.to_string()),
                    deployment_collaborators::user_id.eq(user.to_string()),
                    deployment_collaborators::role.eq(role.word()),
                    deployment_collaborators::added_at.eq(at.as_micros()),
                ))
                .execute(conn)?;
            Ok(true)
        })
    }

    fn get(&mut self, deployment: DeploymentId, user: AccountId) -> Result<Option<DeploymentCollaborator>> {
        self.run("read a collaborator of a deployment", |conn| get_collaborator(conn, deployment, user))
    }

    fn remove(&mut self, deployment: DeploymentId, user: AccountId) -> Result<Option<DeploymentCollaborator>> {
        self.run("remove a collaborator of a deployment", |conn| {
            let found = get_collaborator(conn, deployment, user)?;
            let key = (deployment.to_string(), user.to_string());
            diesel::delete(deployment_collaborators::table.find(key)).execute(conn)?;
            Ok(found)
        })
    }

    fn list(&mut self, deployment: DeploymentId) -> Result<Vec<DeploymentCollaborator>> {
        self.run("list collaborators of a deployment", |conn| {
            let rows: Vec<CollaboratorRow> = collaborators_of!(deployment).order(accounts::name_key).load(conn)?;
            all(rows, collaborator)
        })
    }
}
