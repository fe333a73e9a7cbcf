//! The id of the cluster whose store of databases belongs to this metadata store.

use branchyard_domain::ports::{Durability, MetadataError, Transaction as _, WriteKeys};
use diesel::prelude::*;
use diesel::sql_types::{Nullable, Text};

use crate::store::Store;

#[derive(QueryableByName)]
struct ClusterRow {
    #[diesel(sql_type = Nullable<Text>)]
    cluster_id: Option<String>,
}

impl Store {
    /// Returns the id of the cluster, or `None` if no store of databases was used with this metadata store yet.
    ///
    /// # Errors
    /// [`MetadataError`] if the store fails.
    pub fn cluster_id(&self) -> Result<Option<String>, MetadataError> {
        let mut tx = self.transaction(None)?;
        let row: Option<ClusterRow> = tx.run("read the id of the cluster", |conn| {
            Ok(diesel::sql_query("SELECT cluster_id FROM store_state").get_result(conn).optional()?)
        })?;
        Ok(row.and_then(|row| row.cluster_id))
    }

    /// Sets the id of the cluster.
    ///
    /// # Errors
    /// [`MetadataError`] if the store fails.
    pub fn replace_cluster_id(&self, id: &str) -> Result<(), MetadataError> {
        let mut tx = Box::new(self.transaction(Some(&WriteKeys::server()))?);
        tx.run("rename the cluster", |conn| {
            diesel::sql_query("UPDATE store_state SET cluster_id = $1").bind::<Text, _>(id).execute(conn)?;
            Ok(())
        })?;
        tx.commit(Durability::Synced)
    }

    /// Returns the id of the cluster, and sets it to `id` if there is none.
    ///
    /// # Errors
    /// [`MetadataError`] if the store fails.
    pub fn adopt_cluster_id(&self, id: &str) -> Result<String, MetadataError> {
        let mut tx = Box::new(self.transaction(Some(&WriteKeys::server()))?);
        let row: ClusterRow = tx.run("name the cluster", |conn| {
            let adopt = "UPDATE store_state SET cluster_id = COALESCE(cluster_id, $1) RETURNING cluster_id";
            Ok(diesel::sql_query(adopt).bind::<Text, _>(id).get_result(conn)?)
        })?;
        tx.commit(Durability::Synced)?;
        Ok(row.cluster_id.unwrap_or_else(|| id.to_owned()))
    }
}
