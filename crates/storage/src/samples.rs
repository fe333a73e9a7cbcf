//! Metric samples of instances.

use branchyard_deployments::ports::{Resolution, Sample, SampleRepository};
use branchyard_deployments::values::{DeploymentId, InstanceId};
use branchyard_domain::ports::MetadataError;
use branchyard_domain::values::Timestamp;
use diesel::prelude::*;

use crate::convert::{StoredWord, all, count, time};
use crate::json;
use crate::schema::{instances, samples};
use crate::transaction::SqlTransaction;

type Result<T> = std::result::Result<T, MetadataError>;

impl SampleRepository for SqlTransaction {
    fn put(&mut self, instance: InstanceId, resolution: Resolution, at: Timestamp, sample: &Sample) -> Result<()> {
        self.run("keep a sample", |conn| {
            let key = (instance.to_string(), resolution.word().to_owned(), at.as_micros());
            let measured = json::from_sample(sample)?;
            let changed =
                diesel::update(samples::table.find(key)).set(samples::measured.eq(measured.clone())).execute(conn)?;
            if changed == 0 {
                diesel::insert_into(samples::table)
                    .values((
                        samples::instance_id.eq(instance.to_string()),
                        samples::resolution.eq(resolution.word()),
                        samples::at.eq(at.as_micros()),
                        samples::measured.eq(measured),
                    ))
                    .execute(conn)?;
            }
            Ok(())
        })
    }

    fn list(
        &mut self,
        instance: InstanceId,
        resolution: Resolution,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<(Timestamp, Sample)>> {
        self.run("list samples", |conn| {
            let rows: Vec<(i64, String)> = samples::table
                .filter(samples::instance_id.eq(instance.to_string()))
                .filter(samples::resolution.eq(resolution.word()))
                .filter(samples::at.ge(from.as_micros()))
                .filter(samples::at.lt(to.as_micros()))
                .order(samples::at)
                .select((samples::at, samples::measured))
                .load(conn)?;
            all(rows, |(at, measured)| Ok((time(at), json::to_sample(&measured)?)))
        })
    }

    fn purge(&mut self, resolution: Resolution, before: Timestamp) -> Result<u64> {
        self.run("purge samples", |conn| {
            let old = samples::table
                .filter(samples::resolution.eq(resolution.word()))
                .filter(samples::at.lt(before.as_micros()));
            let removed = diesel::delete(old).execute(conn)?;
            Ok(count(i64::try_from(removed).unwrap_or(i64::MAX)))
        })
    }

    fn clear(&mut self, deployment: DeploymentId) -> Result<()> {
        self.run("remove the samples of a deployment", |conn| {
            let own: Vec<String> = instances::table
                .filter(instances::deployment_id.eq(deployment.to_string()))
                .select(instances::id)
                .load(conn)?;
            diesel::delete(samples::table.filter(samples::instance_id.eq_any(own))).execute(conn)?;
            Ok(())
        })
    }
}
