//! The keys under which objects of the store are sealed, wrapped.
//!
//! The row of a segment names its key, so a key cannot be removed while a segment names it, and a segment that names a removed key is not
//! saved: both are the foreign key of the column.

use std::sync::Arc;
use std::time::Duration;

use branchyard_domain::ports::{DataKeys, Durability, MetadataError, Transaction as _, WrappedDataKey, WriteKeys};
use branchyard_domain::values::{DataKeyId, DataKeyScope};
use data_encoding::HEXLOWER;
use diesel::prelude::*;
use diesel::sql_types::{Binary, Text};

use super::{EngineSql, clock, micros, text};
use crate::connection::AnyConnection;
use crate::convert::{Read, all, read};
use crate::error::StoreResult;
use crate::prepared::{Parameter, PreparedSql};
use crate::store::Store;
use crate::transaction::SqlTransaction;

const FIND: &str = "SELECT id, scope, master_id, wrapped FROM data_keys WHERE id = ?";

const OF_SCOPE: &str = "SELECT id, scope, master_id, wrapped FROM data_keys WHERE scope = ?";

const ALL: &str = "SELECT id, scope, master_id, wrapped FROM data_keys ORDER BY id";

const ADD: EngineSql = EngineSql {
    postgres: concat!(
        "INSERT INTO data_keys (id, scope, master_id, wrapped, added_at) VALUES (?, ?, ?, decode(?, 'hex'), ",
        clock!(postgres),
        ") ON CONFLICT (scope) DO NOTHING"
    ),
    sqlite: concat!(
        "INSERT INTO data_keys (id, scope, master_id, wrapped, added_at) VALUES (?, ?, ?, unhex(?), ",
        clock!(sqlite),
        ") ON CONFLICT (scope) DO NOTHING"
    ),
};

const REWRAP: EngineSql = EngineSql {
    postgres: "UPDATE data_keys SET master_id = ?, wrapped = decode(?, 'hex') \
        WHERE id = ? AND wrapped = decode(?, 'hex') RETURNING CAST(1 AS BIGINT)",
    sqlite: "UPDATE data_keys SET master_id = ?, wrapped = unhex(?) \
        WHERE id = ? AND wrapped = unhex(?) RETURNING CAST(1 AS BIGINT)",
};

/// The parameters are whether databases that exist keep their keys, and for how long after it was added each key is kept. Objects that
/// wait to be deleted are few, and are looked through for the few keys that no segment names.
macro_rules! unused {
    ($clock:expr) => {
        concat!(
            "SELECT id FROM data_keys AS k WHERE scope NOT IN ('uploads', 'backups') \
             AND (? = 0 OR NOT EXISTS (SELECT 1 FROM databases AS d WHERE d.id = k.scope)) AND added_at <= ",
            $clock,
            " - ? AND NOT EXISTS (SELECT 1 FROM segments AS s WHERE s.key_id = k.id) \
             AND NOT EXISTS (SELECT 1 FROM doomed_objects AS o WHERE o.object LIKE '%.sealed-%-' || k.id) ORDER BY id"
        )
    };
}

const UNUSED: EngineSql = EngineSql { postgres: unused!(clock!(postgres)), sqlite: unused!(clock!(sqlite)) };

const REMOVE: EngineSql = EngineSql::same(
    "DELETE FROM data_keys WHERE id = ? AND NOT EXISTS (SELECT 1 FROM segments AS s WHERE s.key_id = data_keys.id) \
     RETURNING CAST(1 AS BIGINT)",
);

type Columns = (Text, Text, Text, Binary);
type Values = (String, String, String, Vec<u8>);

/// The wrapped data keys in the metadata store.
#[derive(Clone)]
pub struct SqlDataKeys {
    store: Arc<Store>,
    grace: Duration,
}

impl Store {
    /// Returns the wrapped data keys. None counts as unused before `grace` has passed since it was added: a new database has segments
    /// before it is added itself.
    pub fn data_keys(self: &Arc<Self>, grace: Duration) -> SqlDataKeys {
        SqlDataKeys { store: Arc::clone(self), grace }
    }
}

fn hexadecimal(bytes: &[u8]) -> Parameter {
    text(HEXLOWER.encode(bytes))
}

fn data_key((id, scope, master_id, wrapped): Values) -> Read<WrappedDataKey> {
    Ok(WrappedDataKey { id: read("data_keys.id", id)?, scope: read("data_keys.scope", scope)?, master_id, wrapped })
}

fn first(conn: &mut AnyConnection, sql: &'static str, parameter: String) -> StoreResult<Option<WrappedDataKey>> {
    let row: Option<Values> = PreparedSql::<Columns>::new(sql, vec![text(parameter)]).get_result(conn).optional()?;
    Ok(row.map(data_key).transpose()?)
}

impl SqlDataKeys {
    fn look<T>(
        &self,
        context: &'static str,
        steps: impl FnOnce(&mut AnyConnection) -> StoreResult<T>,
    ) -> Result<T, MetadataError> {
        SqlTransaction::look(&self.store.readers, self.store.log.as_ref())?.run_apart_from_rights(context, steps)
    }

    fn change<T>(
        &self,
        context: &'static str,
        steps: impl FnOnce(&mut AnyConnection) -> StoreResult<T>,
    ) -> Result<T, MetadataError> {
        let mut tx = Box::new(self.store.transaction(Some(&WriteKeys::none()))?);
        let done = tx.run_apart_from_rights(context, steps)?;
        tx.commit(Durability::Synced)?;
        Ok(done)
    }
}

impl DataKeys for SqlDataKeys {
    fn find(&self, id: DataKeyId) -> Result<Option<WrappedDataKey>, MetadataError> {
        self.look("read a data key", |conn| first(conn, FIND, id.to_string()))
    }

    fn of_scope(&self, scope: DataKeyScope) -> Result<Option<WrappedDataKey>, MetadataError> {
        self.look("read the data key of a scope", |conn| first(conn, OF_SCOPE, scope.to_string()))
    }

    fn add(&self, key: &WrappedDataKey) -> Result<WrappedDataKey, MetadataError> {
        self.change("add a data key", |conn| {
            let parameters = vec![
                text(key.id.to_string()),
                text(key.scope.to_string()),
                text(&key.master_id),
                hexadecimal(&key.wrapped),
            ];
            PreparedSql::<()>::new(ADD.of(conn), parameters).execute(conn)?;
            // A statement of its own sees what another server added meanwhile.
            Ok(first(conn, OF_SCOPE, key.scope.to_string())?.ok_or(diesel::result::Error::NotFound)?)
        })
    }

    fn all(&self) -> Result<Vec<WrappedDataKey>, MetadataError> {
        self.look("read the data keys", |conn| {
            let rows: Vec<Values> = PreparedSql::<Columns>::new(ALL, Vec::new()).load(conn)?;
            all(rows, data_key)
        })
    }

    fn rewrap(&self, before: &WrappedDataKey, master_id: &str, wrapped: &[u8]) -> Result<bool, MetadataError> {
        self.change("wrap a data key anew", |conn| {
            let parameters =
                vec![text(master_id), hexadecimal(wrapped), text(before.id.to_string()), hexadecimal(&before.wrapped)];
            Ok(REWRAP.number(conn, parameters)?.is_some())
        })
    }

    fn unused(&self, is_sealing: bool) -> Result<Vec<DataKeyId>, MetadataError> {
        self.look("look for unused data keys", |conn| {
            let parameters = vec![Parameter::Number(i64::from(is_sealing)), Parameter::Number(micros(self.grace))];
            let ids: Vec<String> = PreparedSql::<Text>::new(UNUSED.of(conn), parameters).load(conn)?;
            all(ids, |id| read("data_keys.id", id))
        })
    }

    fn remove(&self, id: DataKeyId) -> Result<bool, MetadataError> {
        self.change("remove a data key", |conn| Ok(REMOVE.number(conn, vec![text(id.to_string())])?.is_some()))
    }
}
