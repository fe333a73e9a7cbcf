//! The device grant (RFC 8628), for applications on machines without a browser.

use branchyard_auth::{HashedToken, PlainSecret, UserCode};

use super::applications::usable;
use super::grants::check_session;
use super::{Grants, Inner, IssuedTokens};
use crate::entities::{DeviceAuthorization, DeviceDecision, RegisteredApplication, User};
use crate::errors::GrantError;
use crate::ports::{Durability, MetadataError, WriteKeys};
use crate::values::{ApplicationId, Scope, SessionId};

/// The codes of a device that begins to wait. The device code is readable only now.
#[derive(Debug)]
pub struct WaitingDevice {
    /// What the device polls with.
    pub device_code: PlainSecret,
    /// What the device shows to its user.
    pub user_code: UserCode,
    /// Seconds until both expire.
    pub expires_in: i64,
    /// Minimum seconds between two polls.
    pub interval_seconds: i64,
}

/// Use cases of the device grant.
pub struct Devices<'a>(&'a Inner);

impl<'a> Devices<'a> {
    /// Seconds for which a device waits for its user.
    pub const SECONDS: i64 = 600;

    /// Initial minimum number of seconds between two polls.
    pub const POLL_SECONDS: i64 = 5;

    /// Seconds by which the minimum grows with each poll that comes too early (RFC 8628 §3.5).
    pub const SLOW_DOWN_SECONDS: i64 = 5;

    /// Longest minimum number of seconds between two polls.
    pub const MAX_POLL_SECONDS: i64 = 60;

    /// Maximum number of devices that wait at once.
    pub const MAX_WAITING: u64 = 10_000;

    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Has a device wait for the consent of a user.
    ///
    /// # Errors
    /// [`GrantError::UnknownApplication`]; [`GrantError::TooManyDevices`].
    pub fn begin(&self, application: &ApplicationId, scope: Scope) -> Result<WaitingDevice, GrantError> {
        /// Attempts to find a user code that no device has. One device in a million needs a second one.
        const ATTEMPTS: usize = 5;
        let now = self.0.now();
        let fill = &mut |buffer: &mut [u8]| self.0.ports.ids.fill(buffer);
        let device_code = PlainSecret::mint_from(fill);
        let mut tx = self.0.ports.metadata.write(&WriteKeys::none())?;
        usable(tx.as_mut(), application)?.ok_or(GrantError::UnknownApplication)?;
        // Expired ones stay for as long again, so that their devices learn why they get nothing.
        tx.device_authorizations().purge(now.plus_seconds(-Self::SECONDS))?;
        if tx.device_authorizations().count_live(now)? >= Self::MAX_WAITING {
            return Err(GrantError::TooManyDevices);
        }
        for _ in 0..ATTEMPTS {
            let device = DeviceAuthorization {
                hash: device_code.hash(),
                user_code: UserCode::mint_from(fill),
                application: application.clone(),
                scope,
                created_at: now,
                expires_at: now.plus_seconds(Self::SECONDS),
                interval_seconds: Self::POLL_SECONDS,
                polled_at: None,
                decision: DeviceDecision::Pending,
            };
            match tx.device_authorizations().add(&device) {
                Err(MetadataError::Taken) => {}
                other => {
                    other?;
                    tx.commit(Durability::Synced)?;
                    return Ok(WaitingDevice {
                        device_code,
                        user_code: device.user_code,
                        expires_in: Self::SECONDS,
                        interval_seconds: Self::POLL_SECONDS,
                    });
                }
            }
        }
        Err(GrantError::TooManyDevices)
    }

    /// Returns the device that shows this code and waits for a decision, with its application.
    ///
    /// # Errors
    /// [`GrantError::Invalid`] if there is none.
    pub fn find(&self, code: UserCode) -> Result<(DeviceAuthorization, RegisteredApplication), GrantError> {
        let now = self.0.now();
        let mut tx = self.0.ports.metadata.read()?;
        let waits =
            |device: &DeviceAuthorization| now < device.expires_at && device.decision == DeviceDecision::Pending;
        let device = tx.device_authorizations().by_user_code(code)?.filter(waits).ok_or(GrantError::Invalid)?;
        let application = usable(tx.as_mut(), &device.application)?.ok_or(GrantError::Invalid)?;
        Ok((device, application))
    }

    /// Records what a user decided about the device that shows this code. `session` is the session in which the user decides, if there is
    /// one.
    ///
    /// # Errors
    /// [`GrantError::SessionEnded`]; [`GrantError::Invalid`] if no device waits with this code any more.
    pub fn decide(
        &self,
        user: &User,
        session: Option<SessionId>,
        code: UserCode,
        approves: bool,
    ) -> Result<RegisteredApplication, GrantError> {
        let (device, application) = self.find(code)?;
        let mut tx = self.0.ports.metadata.write(&WriteKeys::account(user.id))?;
        check_session(tx.as_mut(), user.id, session)?;
        if !tx.device_authorizations().decide(&device.hash, user.id, approves, self.0.now())? {
            return Err(GrantError::Invalid);
        }
        tx.commit(Durability::Synced)?;
        Ok(application)
    }

    /// Answers a poll of a device: issues tokens once its user has approved.
    ///
    /// # Errors
    /// [`GrantError::Pending`]; [`GrantError::SlowDown`]; [`GrantError::Denied`]; [`GrantError::Expired`]; [`GrantError::Invalid`];
    /// [`GrantError::UnknownApplication`].
    pub fn poll(&self, application: &ApplicationId, code: &HashedToken) -> Result<IssuedTokens, GrantError> {
        let metadata = self.0.ports.metadata.as_ref();
        let now = self.0.now();
        let found = metadata.read()?.device_authorizations().get(code)?;
        let device = found.filter(|device| device.application == *application).ok_or(GrantError::Invalid)?;
        if now >= device.expires_at {
            return Err(GrantError::Expired);
        }
        match device.decision {
            DeviceDecision::Pending => {
                let next = device.polled_at.map(|at| at.plus_seconds(device.interval_seconds));
                let is_early = next.is_some_and(|next| now < next);
                let longer = (device.interval_seconds + Self::SLOW_DOWN_SECONDS).min(Self::MAX_POLL_SECONDS);
                let interval = if is_early { longer } else { device.interval_seconds };
                // A device that polls all the time writes nothing once it has the longest interval.
                if !is_early || interval > device.interval_seconds {
                    let mut tx = metadata.write(&WriteKeys::none())?;
                    tx.device_authorizations().record_poll(code, now, interval)?;
                    tx.commit(Durability::Unsynced)?;
                }
                Err(if is_early { GrantError::SlowDown(interval) } else { GrantError::Pending })
            }
            DeviceDecision::Denied => {
                let mut tx = metadata.write(&WriteKeys::none())?;
                tx.device_authorizations().remove(code)?;
                tx.commit(Durability::Synced)?;
                Err(GrantError::Denied)
            }
            DeviceDecision::Approved(user) => {
                let mut tx = metadata.write(&WriteKeys::account(user))?;
                // Another poll may have been faster.
                if !tx.device_authorizations().remove(code)? {
                    return Err(GrantError::Invalid);
                }
                Grants(self.0).begin(tx, application, user, device.scope, None)
            }
        }
    }
}
