//! Devices that wait for their users.

use branchyard_auth::{HashedToken, UserCode};
use branchyard_domain::entities::{DeviceAuthorization, DeviceDecision};
use branchyard_domain::ports::DeviceAuthorizationRepository;
use branchyard_domain::values::{AccountId, Timestamp};
use diesel::prelude::*;

use super::Result;
use crate::convert::{Read, count, one, read, time};
use crate::purge::{Purge, purge};
use crate::schema::oauth_devices;
use crate::transaction::SqlTransaction;

const PURGE: Purge = purge!("oauth_devices", "hash", "expires_at");

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = oauth_devices)]
struct DeviceRow {
    hash: Vec<u8>,
    user_code: String,
    application_id: String,
    scope: String,
    created_at: i64,
    expires_at: i64,
    interval_seconds: i64,
    polled_at: Option<i64>,
    decided_by: Option<String>,
    is_approved: Option<bool>,
}

impl DeviceRow {
    fn device(self) -> Read<DeviceAuthorization> {
        let decision = match (self.decided_by, self.is_approved) {
            (Some(user), Some(true)) => DeviceDecision::Approved(read("oauth_devices.decided_by", user)?),
            (_, Some(false)) => DeviceDecision::Denied,
            _ => DeviceDecision::Pending,
        };
        Ok(DeviceAuthorization {
            hash: HashedToken::from_bytes(read("oauth_devices.hash", self.hash)?),
            user_code: read("oauth_devices.user_code", self.user_code)?,
            application: read("oauth_devices.application_id", self.application_id)?,
            scope: read("oauth_devices.scope", self.scope)?,
            created_at: time(self.created_at),
            expires_at: time(self.expires_at),
            interval_seconds: self.interval_seconds,
            polled_at: self.polled_at.map(time),
            decision,
        })
    }
}

impl DeviceAuthorizationRepository for SqlTransaction {
    fn add(&mut self, device: &DeviceAuthorization) -> Result<()> {
        let row = DeviceRow {
            hash: device.hash.as_bytes().to_vec(),
            user_code: device.user_code.to_string(),
            application_id: device.application.to_string(),
            scope: device.scope.as_str().to_owned(),
            created_at: device.created_at.as_micros(),
            expires_at: device.expires_at.as_micros(),
            interval_seconds: device.interval_seconds,
            polled_at: device.polled_at.map(|at| at.as_micros()),
            decided_by: None,
            is_approved: None,
        };
        self.run_apart_from_rights_unless_taken("add a device", |conn| {
            diesel::insert_into(oauth_devices::table).values(row).execute(conn)?;
            Ok(())
        })
    }

    fn get(&mut self, hash: &HashedToken) -> Result<Option<DeviceAuthorization>> {
        self.run_apart_from_rights("find a device", |conn| {
            let found = oauth_devices::table.find(hash.as_bytes().to_vec());
            one(found.select(DeviceRow::as_select()).first(conn).optional()?, DeviceRow::device)
        })
    }

    fn by_user_code(&mut self, code: UserCode) -> Result<Option<DeviceAuthorization>> {
        self.run_apart_from_rights("find a device by its user code", |conn| {
            let found = oauth_devices::table.filter(oauth_devices::user_code.eq(code.to_string()));
            one(found.select(DeviceRow::as_select()).first(conn).optional()?, DeviceRow::device)
        })
    }

    fn count_live(&mut self, now: Timestamp) -> Result<u64> {
        self.run_apart_from_rights("count devices", |conn| {
            let live = oauth_devices::table.filter(oauth_devices::expires_at.gt(now.as_micros()));
            Ok(count(live.count().get_result(conn)?))
        })
    }

    fn record_poll(&mut self, hash: &HashedToken, at: Timestamp, interval_seconds: i64) -> Result<()> {
        self.run_apart_from_rights("record the poll of a device", |conn| {
            let polled = oauth_devices::polled_at.eq(at.as_micros());
            diesel::update(oauth_devices::table.find(hash.as_bytes().to_vec()))
                .set((polled, oauth_devices::interval_seconds.eq(interval_seconds)))
                .execute(conn)?;
            Ok(())
        })
    }

    fn decide(&mut self, hash: &HashedToken, user: AccountId, approves: bool, now: Timestamp) -> Result<bool> {
        self.run_apart_from_rights("record a decision about a device", |conn| {
            let waiting = oauth_devices::table
                .find(hash.as_bytes().to_vec())
                .filter(oauth_devices::is_approved.is_null())
                .filter(oauth_devices::expires_at.gt(now.as_micros()));
            let decided = diesel::update(waiting)
                .set((oauth_devices::decided_by.eq(user.to_string()), oauth_devices::is_approved.eq(approves)))
                .execute(conn)?;
            Ok(decided > 0)
        })
    }

    fn remove(&mut self, hash: &HashedToken) -> Result<bool> {
        self.run_apart_from_rights("remove a device", |conn| {
            Ok(diesel::delete(oauth_devices::table.find(hash.as_bytes().to_vec())).execute(conn)? > 0)
        })
    }

    fn purge(&mut self, now: Timestamp) -> Result<()> {
        self.run_apart_from_rights("remove devices that expired", |conn| PURGE.run(conn, now))
    }
}
