//! Activity logs.

use super::{MemoryTransaction, Result, count, missing, page};
use branchyard_domain::entities::{Activity, ActivityKind};
use branchyard_domain::ports::{ActivityRepository, WriteKey};
use branchyard_domain::values::{DatabaseId, PullNumber, Timestamp};

impl MemoryTransaction<'_> {
    fn activities(&self, wanted: impl Fn(&Activity) -> bool, limit: usize) -> Vec<Activity> {
        page(self.state.activities.values().rev().filter(|activity| wanted(activity)).cloned(), limit)
    }
}

impl ActivityRepository for MemoryTransaction<'_> {
    fn add(&mut self, activity: &Activity) -> Result<()> {
        self.needs(WriteKey::Database(activity.database_id));
        let Some(user) = self.state.users.get(&activity.by) else { return Err(missing("note an activity")) };
        let named = Activity { by_name: user.name.clone(), ..activity.clone() };
        self.change()?.activities.insert(activity.id, named);
        Ok(())
    }

    fn list(&mut self, database: DatabaseId, limit: usize) -> Result<Vec<Activity>> {
        Ok(self.activities(|activity| activity.database_id == database, limit))
    }

    fn list_of_pull(&mut self, database: DatabaseId, number: PullNumber, limit: usize) -> Result<Vec<Activity>> {
        let is_of_pull =
            |activity: &Activity| matches!(activity.kind, ActivityKind::Pull { number: of, .. } if of == number);
        Ok(self.activities(|activity| activity.database_id == database && is_of_pull(activity), limit))
    }

    fn purge(&mut self, before: Timestamp) -> Result<u64> {
        let activities = &mut self.change()?.activities;
        let had = activities.len();
        activities.retain(|_, activity| activity.at >= before || matches!(activity.kind, ActivityKind::Pull { .. }));
        Ok(count(had - activities.len()))
    }

    fn clear(&mut self, database: DatabaseId) -> Result<()> {
        self.needs(WriteKey::Database(database));
        self.change()?.activities.retain(|_, activity| activity.database_id != database);
        Ok(())
    }
}
