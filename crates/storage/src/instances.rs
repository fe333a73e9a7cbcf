//! Instances of deployments.

use branchyard_deployments::entities::{Attempts, Instance, InstanceSize, RunState};
use branchyard_deployments::ports::InstanceRepository;
use branchyard_deployments::values::{DeploymentId, InstanceId, Settings};
use branchyard_domain::ports::MetadataError;
use branchyard_domain::values::AccountId;
use diesel::prelude::*;

use crate::convert::{Read, StoredWord, all, one, read, time};
use crate::json;
use crate::schema::{deployments, instances};
use crate::transaction::SqlTransaction;

type Result<T> = std::result::Result<T, MetadataError>;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = instances)]
struct InstanceRow {
    id: String,
    deployment_id: String,
    position: i64,
    state: String,
    port: i64,
    details: String,
}

fn row(instance: &Instance) -> Read<InstanceRow> {
    Ok(InstanceRow {
        id: instance.id.to_string(),
        deployment_id: instance.deployment_id.to_string(),
        position: instance.index.into(),
        state: instance.state.word().to_owned(),
        port: instance.port.into(),
        details: json::from_instance(instance)?,
    })
}

fn instance(row: InstanceRow) -> Read<Instance> {
    let id = read("instances.id", row.id)?;
    let deployment_id = read("instances.deployment_id", row.deployment_id)?;
    let index = read("instances.position", row.position)?;
    let state = read("instances.state", row.state)?;
    let port = read("instances.port", row.port)?;
    json::to_instance(&row.details, |size: InstanceSize| Instance {
        id,
        deployment_id,
        index,
        state,
        port,
        size,
        accepted_at: time(0),
        started_at: None,
        host: None,
        restarts: 0,
        seeds: Vec::new(),
        prepared: false,
        was_ready: false,
        handle: None,
        started_with: Settings::default(),
        draining: false,
        attempts: Attempts::default(),
        crash_loop: false,
        volume_full: false,
        shutdown: None,
    })
}

impl InstanceRepository for SqlTransaction {
    fn add(&mut self, instance: &Instance) -> Result<()> {
        self.run_unless_taken("add an instance", |conn| {
            diesel::insert_into(instances::table).values(row(instance)?).execute(conn)?;
            Ok(())
        })
    }

    fn update(&mut self, instance: &Instance) -> Result<bool> {
        self.run_unless_taken("change an instance", |conn| {
            let row = row(instance)?;
            let changed = diesel::update(instances::table.find(row.id))
                .set((instances::state.eq(row.state), instances::port.eq(row.port), instances::details.eq(row.details)))
                .execute(conn)?;
            Ok(changed > 0)
        })
    }

    fn get(&mut self, id: InstanceId) -> Result<Option<Instance>> {
        self.run("read an instance", |conn| {
            let found: Option<InstanceRow> =
                instances::table.find(id.to_string()).select(InstanceRow::as_select()).first(conn).optional()?;
            one(found, instance)
        })
    }

    fn list(&mut self, deployment: DeploymentId) -> Result<Vec<Instance>> {
        self.run("list instances", |conn| {
            let rows: Vec<InstanceRow> = instances::table
                .filter(instances::deployment_id.eq(deployment.to_string()))
                .order(instances::id)
                .select(InstanceRow::as_select())
                .load(conn)?;
            all(rows, instance)
        })
    }

    fn active(&mut self) -> Result<Vec<(Instance, AccountId, String)>> {
        self.run("list instances that are not stopped", |conn| {
            let rows: Vec<(InstanceRow, (String, String))> = instances::table
                .inner_join(deployments::table.on(deployments::id.eq(instances::deployment_id)))
                .filter(instances::state.ne(RunState::Stopped.word()))
                .order(instances::id)
                .select((InstanceRow::as_select(), (deployments::owner_id, deployments::zone)))
                .load(conn)?;
            all(rows, |(row, (owner, zone))| Ok((instance(row)?, read("deployments.owner_id", owner)?, zone)))
        })
    }
}
