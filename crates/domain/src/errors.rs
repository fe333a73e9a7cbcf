//! Errors, one enum per family of use cases. They hold no HTTP terms and keep the cause as `source`.

use crate::ports::{AddressError, BlobsError, EngineError, FormatError, MetadataError};
use crate::values::{Invalid, OperationId, PullNumber, RefName};

/// A failure of a port, independent of the caller's input.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The metadata store.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The blob store.
    #[error(transparent)]
    Blobs(#[from] BlobsError),
    /// A port declared by a crate that depends on this one.
    #[error(transparent)]
    External(ExternalFault),
    /// A concurrent request with the same idempotency key saved its answer first.
    #[error("another request with this idempotency key was faster")]
    KeyTaken,
    /// Concurrent changes prevented completion after several tries.
    #[error("the state changed too often to finish: {0}")]
    Unsettled(&'static str),
}

/// A failure of a port that is declared by a crate that depends on this one.
#[derive(Debug)]
pub struct ExternalFault {
    cause: Box<dyn std::error::Error + Send + Sync>,
    is_temporary: bool,
}

impl ExternalFault {
    /// Wraps an error. `is_temporary` states whether a later try may succeed.
    pub fn new(cause: impl std::error::Error + Send + Sync + 'static, is_temporary: bool) -> Self {
        Self { cause: Box::new(cause), is_temporary }
    }

    /// Returns the wrapped error if it has type `E`.
    pub fn cause<E: std::error::Error + 'static>(&self) -> Option<&E> {
        self.cause.downcast_ref()
    }

    /// Returns `true` if a later try may succeed.
    pub fn is_temporary(&self) -> bool {
        self.is_temporary
    }
}

impl std::fmt::Display for ExternalFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.cause.fmt(f)
    }
}

impl std::error::Error for ExternalFault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.source()
    }
}

/// Errors of access to a database.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// Authentication is required.
    #[error("this needs a credential")]
    SignInRequired,
    /// The database does not exist, is deleted, or is hidden from the caller. The error does not reveal which.
    #[error("no such repository")]
    NoSuchDatabase,
    /// The database is visible, but the caller's role is too low. Holds the name of the required role.
    #[error("this needs the {0} role on the database")]
    Denied(&'static str),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// Errors of users and of names, which users share with organizations.
#[derive(Debug, thiserror::Error)]
pub enum PeopleError {
    /// A user or organization has this name.
    #[error("the name '{0}' is taken")]
    NameTaken(String),
    /// The name would shadow a route or a page, or the operator has reserved it.
    #[error("the name '{0}' is reserved")]
    NameReserved(String),
    /// The user does not exist.
    #[error("no user '{0}'")]
    NoSuchUser(String),
    /// The user already has this email address.
    #[error("you already have this address")]
    EmailKnown,
    /// The user has reached the limit of email addresses.
    #[error("a user can have at most {0} addresses; remove one first")]
    TooManyEmails(usize),
    /// The user does not have this email address.
    #[error("this address is not one of yours")]
    NoSuchEmail,
    /// The address is the primary one, which commits carry.
    #[error("your commits carry this address; choose another commit email first")]
    PrimaryEmail,
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// Errors of signing in.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// The user does not exist, has no password, or has another password. The error does not reveal which.
    #[error("wrong user name or password")]
    Wrong,
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// Errors of sign-up and invitations.
#[derive(Debug, thiserror::Error)]
pub enum SignUpError {
    /// Sign-up is disabled.
    #[error("sign-up is closed on this server")]
    Closed,
    /// Sign-up requires an invitation.
    #[error("sign-up requires an invitation")]
    InvitationNeeded,
    /// The invitation is unknown, used, withdrawn or expired.
    #[error("the invitation is no longer valid; ask for a new one")]
    NoSuchInvitation,
    /// Only server administrators may invite.
    #[error("only server administrators can invite users")]
    NotYours,
    /// The limit of open invitations is reached.
    #[error("{0} invitations are already pending; revoke some first")]
    TooManyInvitations(usize),
    /// The name is not available.
    #[error(transparent)]
    People(#[from] PeopleError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// Errors of organizations and their members.
#[derive(Debug, thiserror::Error)]
pub enum OrganizationError {
    /// Authentication is required.
    #[error("this needs a credential")]
    SignInRequired,
    /// No organization has this name.
    #[error("no such organization")]
    NoSuchOrganization,
    /// The caller's role is too low. Holds the name of the required standing.
    #[error("only {0} of the organization can do this")]
    Denied(&'static str),
    /// The user is not a member.
    #[error("no member '{0}'")]
    NoSuchMember(String),
    /// The last owner cannot be removed or demoted.
    #[error("the organization would have no owner; make another member an owner first")]
    NoOwnerLeft,
    /// The organization owns databases, possibly including some that the caller does not expect.
    #[error("the organization owns {0} databases; delete them first")]
    OwnsDatabases(u64),
    /// The organization owns other things, which crates that depend on this one store.
    #[error("the organization owns {0}; disable and delete them first")]
    OwnsOthers(&'static str),
    /// The organization changed since the caller read it.
    #[error("the organization changed since it was read")]
    Changed,
    /// The name is not available.
    #[error(transparent)]
    People(#[from] PeopleError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// Errors of collaborators.
#[derive(Debug, thiserror::Error)]
pub enum CollaboratorError {
    /// The user is not a collaborator.
    #[error("no collaborator '{0}'")]
    NoSuchCollaborator(String),
    /// The user owns the database and needs no role on it.
    #[error("{0} owns the database and already has full access")]
    IsOwner(String),
    /// Access to the database failed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// Errors of API tokens.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// A field is invalid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The user has reached the limit of unexpired tokens.
    #[error("{0} unexpired tokens exist; delete one first")]
    TooMany(u64),
    /// The user has no such token.
    #[error("no such token")]
    NoSuchToken,
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// Errors of databases.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The caller may not create databases for this owner, which may or may not exist.
    #[error("you may not create databases for '{0}'")]
    MayNotCreateFor(String),
    /// The owner has a database of this name.
    #[error("'{0}' already exists")]
    NameTaken(String),
    /// The owner has reached the limit of databases.
    #[error("the owner has reached the limit of {0} databases")]
    TooMany(u64),
    /// The new default branch does not exist.
    #[error("no branch '{0}'")]
    NoSuchBranch(String),
    /// A fork of a private database cannot become public without an administrator of the parent.
    #[error("this is a fork of a private database: only an administrator of that database can make it public")]
    ParentPrivate,
    /// The database changed since the caller read it.
    #[error("the database changed since it was read")]
    Changed,
    /// Access to the database failed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// Errors of branches, tags and revisions.
#[derive(Debug, thiserror::Error)]
pub enum RefError {
    /// The name does not resolve to a branch, tag or commit.
    #[error("no branch, tag or commit '{name}' in {database}")]
    NoSuchRef {
        /// The name or revision.
        name: String,
        /// The database, as `owner/name`.
        database: String,
    },
    /// The branch does not exist.
    #[error("no branch '{0}'")]
    NoSuchBranch(String),
    /// The tag does not exist.
    #[error("no tag '{0}'")]
    NoSuchTag(String),
    /// A branch of this name exists.
    #[error("branch '{0}' already exists")]
    BranchExists(String),
    /// A tag of this name exists.
    #[error("tag '{0}' already exists")]
    TagExists(String),
    /// The default branch cannot be deleted.
    #[error("'{0}' is the default branch; make another branch the default first")]
    DefaultBranch(String),
    /// An unsettled operation writes to the branch.
    #[error("operation {0} writes to this branch; wait for it to finish")]
    InUse(OperationId),
    /// A release uses the tag.
    #[error("a release uses tag '{0}'; delete the release first")]
    ReleaseUsesTag(String),
    /// The branch or tag changed since the caller read it.
    #[error("it changed since it was read")]
    Changed,
    /// Access to the database failed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// An invalid state transition of a pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PullStateError {
    /// The pull request is merged, which is a final state.
    #[error("the pull request is merged; its state is final")]
    Merged,
    /// The pull request is closed. Only open pull requests can be merged.
    #[error("the pull request is closed; reopen it first")]
    Closed,
}

/// Errors of pull requests.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// The pull request does not exist.
    #[error("no such pull")]
    NoSuchPull,
    /// The source database does not exist or is hidden from the caller.
    #[error("no such repository")]
    NoSuchSource,
    /// The target branch belongs to a database other than the one the pull request is opened in.
    #[error("to_branch must be a branch of {0}")]
    OtherTarget(String),
    /// Source and base belong to different fork networks.
    #[error("{0} is not in the same fork network")]
    OtherNetwork(String),
    /// Source and target are the same branch.
    #[error("the two branches are the same")]
    SameBranch,
    /// A branch does not exist.
    #[error("no branch '{branch}' in {database}")]
    NoSuchBranch {
        /// The database, as `owner/name`.
        database: String,
        /// Name of the branch.
        branch: String,
        /// Whether the missing branch is the source.
        is_source: bool,
    },
    /// An open pull request has the same source and target.
    #[error("pull request {0} is already open for these branches")]
    Duplicate(PullNumber),
    /// The state of the pull request does not allow the transition.
    #[error(transparent)]
    State(#[from] PullStateError),
    /// An operation that merges the pull request is queued or running.
    #[error("operation {0} is merging this pull request")]
    Merging(OperationId),
    /// A branch no longer exists.
    #[error("branch '{0}' no longer exists")]
    BranchGone(RefName),
    /// The source database no longer exists, or the branches have no common history.
    #[error("{0}")]
    BranchMissing(String),
    /// Only the author or a writer of the database may change the pull request.
    #[error("only the author or a user with write access can change this pull request")]
    NotYours,
    /// The source is another database that is not public, and the caller has no write role on it.
    #[error(
        "the source database is not public: this pull request requires the write role on it, because every reader of \
         the base can see the branch"
    )]
    SourceDenied,
    /// The source is another database that is not public, the base is public, and the caller did not consent to
    /// publishing.
    #[error(
        "the source database is not public, but the base is: this pull request makes the branch visible to everyone; \
         send publish: true to agree"
    )]
    NeedsPublish,
    /// Only an administrator of the source database may withdraw the pull request.
    #[error("withdrawing a pull request requires the admin role on its source database")]
    NotSourceAdmin,
    /// The pull request shows no content.
    #[error(transparent)]
    NotShown(#[from] NotShown),
    /// The commits of the source have not been fetched into the base yet.
    #[error("the commits of the source branch are being fetched; try again in a second")]
    Preparing,
    /// The limit of previews in preparation is reached.
    #[error("too many previews are being prepared; try again in a minute")]
    TooManyPreviews,
    /// Neither side has this table.
    #[error("no table '{0}' in this pull request")]
    NoSuchTable(String),
    /// The pull request changed since the caller read it.
    #[error("the pull request changed since it was read")]
    Changed,
    /// The two sides cannot be merged for a reason other than conflicts.
    #[error("the branches cannot be merged: {0}")]
    CannotMerge(String),
    /// The trial merge exceeded its time limit.
    #[error("the trial merge took too long; try again later")]
    TooSlow,
    /// The queue of operations is full.
    #[error("{0} operations are waiting on this database; try again when some have finished")]
    QueueFull(u64),
    /// Access to the database failed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// Why a pull request shows neither a difference nor conflicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotShown {
    /// An administrator of the source database withdrew the pull request.
    #[error("the pull request was withdrawn by an administrator of its source database; its changes are hidden")]
    Withdrawn,
    /// The pull request was closed together with its source.
    #[error(
        "the changes of this pull request are hidden, because its source database was deleted or is private; open a \
         new pull request to show the branch"
    )]
    HiddenWithSource,
    /// The pull request was closed by a server version that did not store heads.
    #[error(
        "the pull request was closed before the server stored its heads; open a new pull request to see the changes"
    )]
    NoHeads,
}

/// Errors of releases.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// The tag has no release.
    #[error("no release '{0}'")]
    NoSuchRelease(String),
    /// The commit does not exist.
    #[error("no commit '{0}'")]
    NoSuchCommit(String),
    /// The tag does not exist.
    #[error("no tag '{0}'; create it first, or together with the release")]
    NoSuchTag(String),
    /// The tag already has a release.
    #[error("tag '{0}' already has a release")]
    Exists(String),
    /// The tag refers to another commit.
    #[error("tag '{0}' points to another commit")]
    TagElsewhere(String),
    /// The release changed since the caller read it.
    #[error("the release changed since it was read")]
    Changed,
    /// Access to the database failed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// Errors of reads.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The ref does not resolve.
    #[error(transparent)]
    Ref(#[from] RefError),
    /// The requested table does not exist.
    #[error("no table '{0}'")]
    NoSuchTable(String),
    /// The requested column does not exist.
    #[error("no column '{0}'")]
    NoSuchColumn(String),
    /// The time limit was exceeded, in milliseconds.
    #[error("timed out after {0} ms")]
    TimedOut(u64),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// Errors of operations.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    /// The operation does not exist or is hidden from the caller.
    #[error("no such operation")]
    NoSuchOperation,
    /// The caller may read the operation but not cancel it.
    #[error("only the creator or a user with write access can cancel this operation")]
    Denied,
    /// Users may list only the operations they created.
    #[error("you can list only your own operations across all databases")]
    NotYours,
    /// The operation is no longer queued. Only queued operations can be canceled.
    #[error("the operation is no longer queued")]
    NotQueued,
    /// The queue of operations is full.
    #[error("{0} operations are waiting on this database; try again when some have finished")]
    QueueFull(u64),
    /// The start branch does not exist.
    #[error("no branch '{0}'")]
    NoSuchBranch(String),
    /// The caller may not create databases for this owner.
    #[error("you may not create databases for '{0}'")]
    MayNotCreateFor(String),
    /// The name of the fork is taken, or an unsettled operation creates it.
    #[error("'{0}' already exists or is being created")]
    NameTaken(String),
    /// The new owner has reached the limit of databases.
    #[error("the owner has reached the limit of {0} databases")]
    TooManyDatabases(u64),
    /// Access to the database failed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// Errors of uploads and imports.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// Invalid fields. Each entry holds the name of a field and the rule it breaks.
    #[error("the request has invalid fields")]
    Fields(Vec<(&'static str, String)>),
    /// The file is larger than allowed.
    #[error("a file can have at most {limit} bytes; this one has {size}")]
    TooLarge {
        /// Announced size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A file of unannounced size exceeds the limit, in bytes.
    #[error("the file has more than {0} bytes")]
    FileTooLarge(u64),
    /// A file of unannounced size is empty.
    #[error("the file is empty")]
    EmptyFile,
    /// The user has reached the limit of unused upload sessions.
    #[error("{0} upload sessions are open; use them or wait until they expire")]
    TooManyUploads(u64),
    /// The session is unknown or expired, or has no such part.
    #[error("the upload session is unknown or has expired")]
    NoSuchUpload,
    /// An import has already used the session.
    #[error("the upload was already used by operation {0}")]
    UploadUsed(String),
    /// A part is empty.
    #[error("the part is empty")]
    EmptyPart,
    /// The parts exceed the announced size, in bytes.
    #[error("the parts exceed the announced {0} bytes")]
    PartTooLarge(u64),
    /// The bytes of a part do not match the checksum of the sender.
    #[error("the part does not match its Content-MD5")]
    PartChecksum,
    /// The client disconnected, or the bytes could not be read.
    #[error("the part was cut short")]
    PartCutShort(#[source] std::io::Error),
    /// The target branch does not exist.
    #[error("no branch '{0}'")]
    NoSuchBranch(String),
    /// The queue of operations is full.
    #[error("{0} operations are waiting on this database; try again when some have finished")]
    QueueFull(u64),
    /// Access to the database failed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// Errors of hooks and deliveries.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// The database has no such hook.
    #[error("no such hook")]
    NoSuchHook,
    /// The hook has no such delivery.
    #[error("no such delivery")]
    NoSuchDelivery,
    /// The URL is not allowed.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The database has reached the limit of hooks.
    #[error("the database has reached the limit of {0} hooks; delete one first")]
    TooMany(u64),
    /// The delivery is already pending.
    #[error("the delivery is still pending; wait until it is delivered or has failed")]
    StillPending,
    /// The hook changed since the caller read it.
    #[error("the hook changed since it was read")]
    Changed,
    /// Access to the database failed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

macro_rules! from_ports {
    ($($family:ident),+) => {$(
        impl From<MetadataError> for $family {
            fn from(error: MetadataError) -> Self {
                Self::Port(PortError::Metadata(error))
            }
        }

        impl From<EngineError> for $family {
            fn from(error: EngineError) -> Self {
                Self::Port(PortError::Engine(error))
            }
        }

        impl From<BlobsError> for $family {
            fn from(error: BlobsError) -> Self {
                Self::Port(PortError::Blobs(error))
            }
        }
    )+};
}

from_ports!(
    AccessError,
    SignInError,
    SignUpError,
    PeopleError,
    OrganizationError,
    CollaboratorError,
    TokenError,
    DatabaseError,
    RefError,
    PullError,
    ReleaseError,
    ReadError,
    OperationError,
    ImportError,
    HookError
);

impl From<FormatError> for PortError {
    fn from(error: FormatError) -> Self {
        Self::Engine(EngineError::Import(error))
    }
}
