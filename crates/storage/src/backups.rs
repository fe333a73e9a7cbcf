//! Backups of deployments: their metadata. Their files are in the blob store.

use branchyard_deployments::entities::Backup;
use branchyard_deployments::ports::BackupRepository;
use branchyard_deployments::values::{BackupId, DeploymentId};
use branchyard_domain::ports::MetadataError;
use diesel::prelude::*;

use crate::convert::{Read, StoredWord, all, one, read, time};
use crate::json;
use crate::schema::backups;
use crate::transaction::SqlTransaction;

type Result<T> = std::result::Result<T, MetadataError>;
type BackupRow = (String, String, String, String, i64);

fn backup((deployment_id, id, kind, databases, expires_at): BackupRow) -> Read<Backup> {
    Ok(Backup {
        deployment_id: read("backups.deployment_id", deployment_id)?,
        id: read("backups.id", id)?,
        kind: read("backups.kind", kind)?,
        databases: json::to_copied(&databases)?,
        expires_at: time(expires_at),
    })
}

impl BackupRepository for SqlTransaction {
    fn add(&mut self, backup: &Backup) -> Result<()> {
        self.run_unless_taken("add a backup", |conn| {
            diesel::insert_into(backups::table)
                .values((
                    backups::deployment_id.eq(backup.deployment_id.to_string()),
                    backups::id.eq(backup.id.to_string()),
                    backups::kind.eq(backup.kind.word()),
                    backups::databases.eq(json::from_copied(&backup.databases)?),
                    backups::expires_at.eq(backup.expires_at.as_micros()),
                ))
                .execute(conn)?;
            Ok(())
        })
    }

    fn get(&mut self, deployment: DeploymentId, id: BackupId) -> Result<Option<Backup>> {
        self.run("read a backup", |conn| {
            let found: Option<BackupRow> =
                backups::table.find((deployment.to_string(), id.to_string())).first(conn).optional()?;
            one(found, backup)
        })
    }

    fn list(&mut self, deployment: DeploymentId) -> Result<Vec<Backup>> {
        self.run("list backups", |conn| {
            let rows: Vec<BackupRow> = backups::table
                .filter(backups::deployment_id.eq(deployment.to_string()))
                .order(backups::id.desc())
                .load(conn)?;
            all(rows, backup)
        })
    }

    fn remove(&mut self, deployment: DeploymentId, id: BackupId) -> Result<bool> {
        self.run("remove a backup", |conn| {
            let removed =
                diesel::delete(backups::table.find((deployment.to_string(), id.to_string()))).execute(conn)?;
            Ok(removed > 0)
        })
    }
}
