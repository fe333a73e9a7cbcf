//! The state of the store.

use std::collections::BTreeMap;

use branchyard_deployments::entities::{Backup, Deployment, DeploymentOperation, DeploymentRole, Instance, Interval};
use branchyard_deployments::ports::{Resolution, Sample};
use branchyard_deployments::values::{BackupId, DeploymentId, InstanceId};
use branchyard_domain::entities::{
    Activity, Application, Attempt, AuthorizationCode, Branch, CollectionRecord, Database, Delivery, Event, Grant,
    Hook, Invitation, IssuedAccess, MemberRole, Mirror, Operation, Organization, Pull, PullComment, RefLogEntry,
    Release, Request, RetiredName, Role, Session, Tag, Token, Upload, User, UserKey,
};
use branchyard_domain::ports::{AttemptWindow, RequestWindow, SavedAnswer};
use branchyard_domain::values::{
    AccountId, ActivityId, ApplicationId, DatabaseId, DatabaseName, DeliveryId, GrantId, HookId, InvitationId,
    OperationId, PullNumber, RefLogId, RefName, SessionId, Timestamp, TokenId, UploadId, UserKeyId,
};

use super::oauth::StoredDevice;

/// An operation with its lease.
#[derive(Debug, Clone)]
pub(super) struct Leased {
    pub(super) operation: Operation,
    pub(super) lease: Option<(String, Timestamp)>,
}

/// A hook with its lease: the holder and the end.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) hook: Hook,
    pub(super) lease: Option<(String, Timestamp)>,
}

/// A delivery with its last request and its attempts.
#[derive(Debug, Clone)]
pub(super) struct Logged {
    pub(super) delivery: Delivery,
    pub(super) request: Option<Request>,
    pub(super) attempts: Vec<Attempt>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct MetadataState {
    /// Users, including deleted ones.
    pub(super) users: BTreeMap<AccountId, User>,
    /// Names of deleted accounts, in lower case, with the deletion.
    pub(super) retired: BTreeMap<AccountId, (String, RetiredName)>,
    pub(super) organizations: BTreeMap<AccountId, Organization>,
    /// Roles and join times by organization and user.
    pub(super) members: BTreeMap<(AccountId, AccountId), (MemberRole, Timestamp)>,
    pub(super) tokens: BTreeMap<TokenId, Token>,
    pub(super) user_keys: BTreeMap<UserKeyId, UserKey>,
    pub(super) sessions: BTreeMap<SessionId, Session>,
    pub(super) attempts_to_sign_in: BTreeMap<String, AttemptWindow>,
    pub(super) request_counts: BTreeMap<AccountId, RequestWindow>,
    pub(super) invitations: BTreeMap<InvitationId, Invitation>,
    pub(super) applications: BTreeMap<ApplicationId, Application>,
    pub(super) grants: BTreeMap<GrantId, Grant>,
    /// Access tokens by their hashes.
    pub(super) access_tokens: BTreeMap<[u8; 32], IssuedAccess>,
    /// Authorization codes by their hashes.
    pub(super) codes: BTreeMap<[u8; 32], AuthorizationCode>,
    /// Devices by the hashes of their codes.
    pub(super) devices: BTreeMap<[u8; 32], StoredDevice>,
    pub(super) databases: BTreeMap<DatabaseId, Database>,
    /// Databases by the owner and the lower-case name that they had, with the spelling of the name and an order by age.
    pub(super) former_names: BTreeMap<(AccountId, String), (DatabaseId, DatabaseName, i64)>,
    pub(super) mirrors: BTreeMap<DatabaseId, Mirror>,
    pub(super) collaborators: BTreeMap<(DatabaseId, AccountId), (Role, Timestamp)>,
    pub(super) stars: BTreeMap<(DatabaseId, AccountId), Timestamp>,
    pub(super) branches: BTreeMap<(DatabaseId, RefName), Branch>,
    pub(super) ref_log: BTreeMap<(DatabaseId, RefLogId), RefLogEntry>,
    pub(super) ref_log_start: Option<Timestamp>,
    pub(super) collections: BTreeMap<DatabaseId, CollectionRecord>,
    pub(super) tags: BTreeMap<(DatabaseId, RefName), Tag>,
    pub(super) pulls: BTreeMap<(DatabaseId, PullNumber), Pull>,
    /// The last allocated number, by database.
    pub(super) pull_numbers: BTreeMap<DatabaseId, i64>,
    /// The end of the lease of a fetch, and the number of failed fetches.
    pub(super) fetches: BTreeMap<(DatabaseId, PullNumber), (Option<Timestamp>, u32)>,
    /// Comments with their authors.
    pub(super) comments: BTreeMap<(DatabaseId, PullNumber), Vec<(AccountId, PullComment)>>,
    pub(super) releases: BTreeMap<(DatabaseId, RefName), Release>,
    pub(super) operations: BTreeMap<OperationId, Leased>,
    pub(super) uploads: BTreeMap<UploadId, Upload>,
    /// Answers by caller, scope and key.
    pub(super) answers: BTreeMap<(AccountId, String, String), SavedAnswer>,
    /// Events in the order they were appended. `true` if the deliveries of the event were created.
    pub(super) events: Vec<(Event, bool)>,
    pub(super) activities: BTreeMap<ActivityId, Activity>,
    pub(super) hooks: BTreeMap<HookId, Held>,
    pub(super) deliveries: BTreeMap<DeliveryId, Logged>,
    pub(super) deployments: BTreeMap<DeploymentId, Deployment>,
    pub(super) deployment_collaborators: BTreeMap<(DeploymentId, AccountId), (DeploymentRole, Timestamp)>,
    pub(super) instances: BTreeMap<InstanceId, Instance>,
    /// Intervals in the order they were opened.
    pub(super) intervals: Vec<Interval>,
    pub(super) backups: BTreeMap<(DeploymentId, BackupId), Backup>,
    pub(super) samples: BTreeMap<(InstanceId, Resolution, Timestamp), Sample>,
    pub(super) deployment_operations: BTreeMap<OperationId, DeploymentOperation>,
}

impl MetadataState {
    /// Returns `true` if the database exists and is quarantined.
    pub(super) fn is_quarantined(&self, id: DatabaseId) -> bool {
        self.databases.get(&id).is_some_and(|database| database.quarantined_at.is_some())
    }

    /// Returns the live database with this lower-case owner and name.
    pub(super) fn live(&self, owner_key: &str, name_key: &str) -> Option<&Database> {
        self.databases
            .values()
            .find(|d| d.deleted_at.is_none() && d.locator.owner.key() == owner_key && d.locator.name.key() == name_key)
    }
}
