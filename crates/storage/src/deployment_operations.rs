//! Operations of deployments.

use branchyard_deployments::entities::{
    DeploymentFailure, DeploymentLocator, DeploymentOperation, DeploymentProgress, DeploymentWork,
};
use branchyard_deployments::ports::{
    DeploymentOperationFilter, DeploymentOperationKind, DeploymentOperationRepository,
};
use branchyard_deployments::values::DeploymentId;
use branchyard_domain::ports::{MetadataError, OperationState};
use branchyard_domain::values::{OperationId, Timestamp};
use diesel::prelude::*;

use crate::convert::{Read, StoredWord, all, count, limit, one, present, read, read_if, time};
use crate::schema::{accounts, deployment_operations, deployments};
use crate::transaction::SqlTransaction;

type Result<T> = std::result::Result<T, MetadataError>;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = deployment_operations)]
struct DeploymentOperationRow {
    id: String,
    deployment_id: String,
    kind: String,
    instance_id: Option<String>,
    state: String,
    backup_id: Option<String>,
    failure_kind: Option<String>,
    failure_reason: Option<String>,
    failure_detail: Option<String>,
    created_by: String,
    created_at: i64,
    updated_at: Option<i64>,
}

fn row(operation: &DeploymentOperation) -> DeploymentOperationRow {
    let instance_id = match operation.work {
        DeploymentWork::RebootInstance(id) => Some(id.to_string()),
        DeploymentWork::CreateBackup | DeploymentWork::Delete => None,
    };
    let (backup, failure) = match &operation.progress {
        DeploymentProgress::Queued | DeploymentProgress::Running => (None, None),
        DeploymentProgress::Succeeded(backup) => (backup.as_ref(), None),
        DeploymentProgress::Failed(failure) => (None, Some(failure)),
    };
    DeploymentOperationRow {
        id: operation.id.to_string(),
        deployment_id: operation.deployment_id.to_string(),
        kind: operation.work.kind().word().to_owned(),
        instance_id,
        state: operation.progress.state().word().to_owned(),
        backup_id: backup.map(ToString::to_string),
        failure_kind: failure.map(|failure| failure.kind.word().to_owned()),
        failure_reason: failure.map(|failure| failure.reason.clone()),
        failure_detail: failure.map(|failure| failure.detail.clone()),
        created_by: operation.created_by.to_string(),
        created_at: operation.created_at.as_micros(),
        updated_at: operation.updated_at.map(Timestamp::as_micros),
    }
}

/// An operation's row with the names of its deployment and its creator.
type JoinedDeploymentOperation = (DeploymentOperationRow, (String, String), String);

fn operation((row, (owner, name), creator): JoinedDeploymentOperation) -> Read<DeploymentOperation> {
    let work = match read("deployment_operations.kind", row.kind)? {
        DeploymentOperationKind::RebootInstance => {
            let id = present("deployment_operations.instance_id", row.instance_id)?;
            DeploymentWork::RebootInstance(read("deployment_operations.instance_id", id)?)
        }
        DeploymentOperationKind::CreateBackup => DeploymentWork::CreateBackup,
        DeploymentOperationKind::Delete => DeploymentWork::Delete,
    };
    let progress = match read("deployment_operations.state", row.state)? {
        OperationState::Queued => DeploymentProgress::Queued,
        OperationState::Running => DeploymentProgress::Running,
        OperationState::Succeeded => {
            DeploymentProgress::Succeeded(read_if("deployment_operations.backup_id", row.backup_id)?)
        }
        OperationState::Failed => {
            let kind = present("deployment_operations.failure_kind", row.failure_kind)?;
            DeploymentProgress::Failed(DeploymentFailure {
                kind: read("deployment_operations.failure_kind", kind)?,
                reason: present("deployment_operations.failure_reason", row.failure_reason)?,
                detail: present("deployment_operations.failure_detail", row.failure_detail)?,
            })
        }
    };
    Ok(DeploymentOperation {
        id: read("deployment_operations.id", row.id)?,
        deployment_id: read("deployment_operations.deployment_id", row.deployment_id)?,
        locator: DeploymentLocator {
            owner: read("deployments.owner_name", owner)?,
            name: read("deployments.name", name)?,
        },
        work,
        progress,
        created_by: read("deployment_operations.created_by", row.created_by)?,
        created_by_name: read("accounts.name", creator)?,
        created_at: time(row.created_at),
        updated_at: row.updated_at.map(time),
    })
}

/// The query whose rows [`operation`] reads.
macro_rules! joined {
    () => {
        deployment_operations::table
            .inner_join(deployments::table.on(deployments::id.eq(deployment_operations::deployment_id)))
            .inner_join(accounts::table.on(accounts::id.eq(deployment_operations::created_by)))
            .select((DeploymentOperationRow::as_select(), (deployments::owner_name, deployments::name), accounts::name))
    };
}

const UNSETTLED: [OperationState; 2] = [OperationState::Queued, OperationState::Running];

impl DeploymentOperationRepository for SqlTransaction {
    fn add(&mut self, operation: &DeploymentOperation) -> Result<()> {
        self.run("add an operation of a deployment", |conn| {
            diesel::insert_into(deployment_operations::table).values(row(operation)).execute(conn)?;
            Ok(())
        })
    }

    fn get(&mut self, id: OperationId) -> Result<Option<DeploymentOperation>> {
        self.run("read an operation of a deployment", |conn| {
            let found: Option<JoinedDeploymentOperation> =
                joined!().filter(deployment_operations::id.eq(id.to_string())).first(conn).optional()?;
            one(found, operation)
        })
    }

    fn update(&mut self, operation: &DeploymentOperation) -> Result<bool> {
        self.run("change an operation of a deployment", |conn| {
            let row = row(operation);
            let open = deployment_operations::table
                .find(row.id)
                .filter(deployment_operations::state.eq_any(UNSETTLED.map(StoredWord::word)));
            let changed = diesel::update(open)
                .set((
                    deployment_operations::state.eq(row.state),
                    deployment_operations::backup_id.eq(row.backup_id),
                    deployment_operations::failure_kind.eq(row.failure_kind),
                    deployment_operations::failure_reason.eq(row.failure_reason),
                    deployment_operations::failure_detail.eq(row.failure_detail),
                    deployment_operations::updated_at.eq(row.updated_at),
                ))
                .execute(conn)?;
            Ok(changed > 0)
        })
    }

    fn list(
        &mut self,
        deployment: DeploymentId,
        filter: DeploymentOperationFilter,
        before: Option<OperationId>,
        most: usize,
    ) -> Result<Vec<DeploymentOperation>> {
        self.run("list operations of a deployment", |conn| {
            let mut query =
                joined!().filter(deployment_operations::deployment_id.eq(deployment.to_string())).into_boxed();
            if let Some(state) = filter.state {
                query = query.filter(deployment_operations::state.eq(state.word()));
            }
            if let Some(kind) = filter.kind {
                query = query.filter(deployment_operations::kind.eq(kind.word()));
            }
            if let Some(before) = before {
                query = query.filter(deployment_operations::id.lt(before.to_string()));
            }
            let rows: Vec<JoinedDeploymentOperation> =
                query.order(deployment_operations::id.desc()).limit(limit(most)).load(conn)?;
            all(rows, operation)
        })
    }

    fn pending(&mut self, deployment: DeploymentId) -> Result<Vec<DeploymentOperation>> {
        self.run("list pending operations of a deployment", |conn| {
            let rows: Vec<JoinedDeploymentOperation> = joined!()
                .filter(deployment_operations::deployment_id.eq(deployment.to_string()))
                .filter(deployment_operations::state.eq_any(UNSETTLED.map(StoredWord::word)))
                .order(deployment_operations::id)
                .load(conn)?;
            all(rows, operation)
        })
    }

    fn purge(&mut self, before: Timestamp) -> Result<u64> {
        self.run("purge operations of deployments", |conn| {
            let settled = [OperationState::Succeeded.word(), OperationState::Failed.word()];
            let old = deployment_operations::table
                .filter(deployment_operations::state.eq_any(settled))
                .filter(deployment_operations::updated_at.lt(before.as_micros()));
            let removed = diesel::delete(old).execute(conn)?;
            Ok(count(i64::try_from(removed).unwrap_or(i64::MAX)))
        })
    }
}
