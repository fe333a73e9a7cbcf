//! Errors, one enum per family of use cases. No HTTP words; the cause is kept as `source`.

use crate::ports::{AddressError, BlobsError, EngineError, FormatError, MetadataError};
use crate::values::{Invalid, OperationId, PullNumber, RefName};

/// A port failed: nobody's input is to blame.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The metadata store.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The blob store.
    #[error(transparent)]
    Blobs(#[from] BlobsError),
    /// A port of a crate that builds on this one.
    #[error(transparent)]
    External(ExternalFault),
    /// Another request with the same idempotency key saved its answer first.
    #[error("another request with this idempotency key was faster")]
    KeyTaken,
    /// Something that was just there is gone or changed without a reason a caller could give.
    #[error("the state changed too often to finish: {0}")]
    Unsettled(&'static str),
}

/// A port failed that a crate over this one declares.
#[derive(Debug)]
pub struct ExternalFault {
    cause: Box<dyn std::error::Error + Send + Sync>,
    is_temporary: bool,
}

impl ExternalFault {
    /// Wraps an error. `is_temporary` says that trying again later may help.
    pub fn new(cause: impl std::error::Error + Send + Sync + 'static, is_temporary: bool) -> Self {
        Self { cause: Box::new(cause), is_temporary }
    }

    /// Returns the wrapped error if it is of this type.
    pub fn cause<E: std::error::Error + 'static>(&self) -> Option<&E> {
        self.cause.downcast_ref()
    }

    /// Returns `true` if trying again later may help.
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

/// Getting at a database.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// A credential is needed and there is none.
    #[error("this needs a credential")]
    SignInRequired,
    /// Absent, deleted or hidden: the caller cannot tell which.
    #[error("no such repository")]
    NoSuchDatabase,
    /// Visible, but the role is too low.
    #[error("this needs the {0} role on the database")]
    Denied(&'static str),
    /// A port failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// People, and the names they share with organizations.
#[derive(Debug, thiserror::Error)]
pub enum PeopleError {
    /// A user or organization has that name.
    #[error("the name '{0}' is taken")]
    NameTaken(String),
    /// The name would shadow a route or a page, or the operator keeps it.
    #[error("the name '{0}' is reserved")]
    NameReserved(String),
    /// There is no such user.
    #[error("no user '{0}'")]
    NoSuchUser(String),
    /// The user has that address already.
    #[error("this address is yours already")]
    EmailKnown,
    /// The user has as many addresses as one may have.
    #[error("a user may have {0} addresses; remove one first")]
    TooManyEmails(usize),
    /// The user has no such address.
    #[error("this is none of your addresses")]
    NoSuchEmail,
    /// Commits carry it.
    #[error("commits carry this address; choose another one for them first")]
    PrimaryEmail,
    /// A port failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Signing in.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// No such user, no password, or another one: which of them is not said.
    #[error("the name or the password is wrong")]
    Wrong,
    /// A port failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Signing up and inviting.
#[derive(Debug, thiserror::Error)]
pub enum SignUpError {
    /// Nobody may sign up.
    #[error("nobody can sign up on this server")]
    Closed,
    /// Only who is invited may sign up.
    #[error("signing up needs an invitation")]
    InvitationNeeded,
    /// The invitation is unknown, used, taken back or expired.
    #[error("the invitation is not open any more; ask for another one")]
    NoSuchInvitation,
    /// Only administrators of the server invite.
    #[error("only administrators of the server may invite")]
    NotYours,
    /// As many invitations are open as are allowed.
    #[error("{0} invitations are open; take some back first")]
    TooManyInvitations(usize),
    /// The name cannot be had.
    #[error(transparent)]
    People(#[from] PeopleError),
    /// A port failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Organizations and their members.
#[derive(Debug, thiserror::Error)]
pub enum OrganizationError {
    /// A credential is needed and there is none.
    #[error("this needs a credential")]
    SignInRequired,
    /// Absent, or a user.
    #[error("no such organization")]
    NoSuchOrganization,
    /// The role is too low.
    #[error("only {0} of the organization may do this")]
    Denied(&'static str),
    /// Nobody of that name is a member.
    #[error("no member '{0}'")]
    NoSuchMember(String),
    /// The last owner stays.
    #[error("the organization would have no owner; make somebody else an owner first")]
    NoOwnerLeft,
    /// It still owns databases, possibly some that the caller does not think of.
    #[error("the organization owns {0} databases; delete them first")]
    OwnsDatabases(u64),
    /// It still owns things that crates over this one keep.
    #[error("the organization owns {0}; disable and delete them first")]
    OwnsOthers(&'static str),
    /// It is not as the caller saw it.
    #[error("the organization changed since it was read")]
    Changed,
    /// A name could not be had.
    #[error(transparent)]
    People(#[from] PeopleError),
    /// A port failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Collaborators.
#[derive(Debug, thiserror::Error)]
pub enum CollaboratorError {
    /// Nobody of that name is a collaborator.
    #[error("no collaborator '{0}'")]
    NoSuchCollaborator(String),
    /// The user who owns the database needs no role on it.
    #[error("{0} owns the database and has every right on it")]
    IsOwner(String),
    /// Getting at the database failed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A port failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Tokens.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// A rule of its fields is broken.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The user has as many live tokens as are allowed.
    #[error("{0} unexpired tokens exist; delete one first")]
    TooMany(u64),
    /// No such token of this user.
    #[error("no such token")]
    NoSuchToken,
    /// A port failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Databases.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The caller may not create for this owner, whether it exists or not.
    #[error("you may not create databases for '{0}'")]
    MayNotCreateFor(String),
    /// The owner has a database of that name.
    #[error("'{0}' exists already")]
    NameTaken(String),
    /// The owner has as many databases as are allowed.
    #[error("the owner has {0} databases, as many as are allowed")]
    TooMany(u64),
    /// The new default branch does not exist.
    #[error("no branch '{0}'")]
    NoSuchBranch(String),
    /// A fork would become public while its parent is private.
    #[error("this is a fork of a private database: only an administrator of that database can make it public")]
    ParentPrivate,
    /// It is not as the caller saw it.
    #[error("the database changed since it was read")]
    Changed,
    /// Getting at it failed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A port failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Branches, tags, revisions.
#[derive(Debug, thiserror::Error)]
pub enum RefError {
    /// Nothing of that name resolves.
    #[error("no branch, tag or commit '{name}' in {database}")]
    NoSuchRef {
        /// What was asked for.
        name: String,
        /// Where.
        database: String,
    },
    /// No such branch.
    #[error("no branch '{0}'")]
    NoSuchBranch(String),
    /// No such tag.
    #[error("no tag '{0}'")]
    NoSuchTag(String),
    /// A branch of that name exists.
    #[error("branch '{0}' exists already")]
    BranchExists(String),
    /// A tag of that name exists.
    #[error("tag '{0}' exists already")]
    TagExists(String),
    /// The default branch stays.
    #[error("'{0}' is the default branch; make another branch the default first")]
    DefaultBranch(String),
    /// An unsettled operation writes to it.
    #[error("operation {0} writes to this branch; wait for it to finish")]
    InUse(OperationId),
    /// A release stands on the tag.
    #[error("a release uses tag '{0}'; delete the release first")]
    ReleaseUsesTag(String),
    /// It is not as the caller saw it.
    #[error("it changed since it was read")]
    Changed,
    /// Getting at the database failed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A port failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// A pull cannot take the state it was asked to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PullStateError {
    /// Merged is final.
    #[error("the pull is merged; its state is final")]
    Merged,
    /// Only an open pull merges.
    #[error("the pull is closed; reopen it first")]
    Closed,
}

/// Pulls.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// No pull of that number.
    #[error("no such pull")]
    NoSuchPull,
    /// The source database is absent or hidden.
    #[error("no such repository")]
    NoSuchSource,
    /// The target is not the database the pull is opened in.
    #[error("to_branch must be a branch of {0}")]
    OtherTarget(String),
    /// Source and base are not of one fork network.
    #[error("{0} is not of the same fork network")]
    OtherNetwork(String),
    /// Source and target are the same branch.
    #[error("the two branches are the same")]
    SameBranch,
    /// A branch does not exist.
    #[error("no branch '{branch}' in {database}")]
    NoSuchBranch {
        /// Where.
        database: String,
        /// Which.
        branch: String,
        /// Whether it is the source.
        is_source: bool,
    },
    /// An open pull has the same source and target.
    #[error("pull {0} is open with the same branches")]
    Duplicate(PullNumber),
    /// The state does not allow it.
    #[error(transparent)]
    State(#[from] PullStateError),
    /// A merge of it is queued or running.
    #[error("operation {0} is merging this pull")]
    Merging(OperationId),
    /// A branch is gone.
    #[error("branch '{0}' does not exist any more")]
    BranchGone(RefName),
    /// The source database is gone, or the branches have nothing in common.
    #[error("{0}")]
    BranchMissing(String),
    /// Only its author or a writer may change it.
    #[error("only the author of the pull or a writer of the database may change it")]
    NotYours,
    /// The source is another database that is not public, and the caller may not write to it.
    #[error(
        "the source database is not public: this pull needs the write role on it, because it shows the branch to every reader of the base"
    )]
    SourceDenied,
    /// The source is another database that is not public, the base is public, and the caller did not agree to publish.
    #[error(
        "the source database is not public and the base is: the pull makes the branch visible to everybody; send publish: true to agree"
    )]
    NeedsPublish,
    /// Only an administrator of the source may withdraw it.
    #[error("withdrawing a pull needs the admin role on its source database")]
    NotSourceAdmin,
    /// It shows nothing.
    #[error(transparent)]
    NotShown(#[from] NotShown),
    /// The commits of the source are not in the base yet.
    #[error("the commits of the source branch are being fetched; try again in a second")]
    Preparing,
    /// As many previews are being prepared as are allowed.
    #[error("too many previews are being prepared; try again in a minute")]
    TooManyPreviews,
    /// No such table on either side.
    #[error("no table '{0}' in this pull")]
    NoSuchTable(String),
    /// It is not as the caller saw it.
    #[error("the pull changed since it was read")]
    Changed,
    /// The two sides cannot be merged, for a reason that is no list of conflicts.
    #[error("the branches cannot be merged: {0}")]
    CannotMerge(String),
    /// The trial merge took too long.
    #[error("the trial merge took too long; try again later")]
    TooSlow,
    /// As many operations wait as are allowed.
    #[error("{0} operations are waiting on this database; try again when some have finished")]
    QueueFull(u64),
    /// Getting at the database failed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A port failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Why a pull shows neither a difference nor conflicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotShown {
    /// An administrator of the source took it back.
    #[error("the pull was withdrawn by an administrator of its source database; what it showed is hidden")]
    Withdrawn,
    /// It was closed with its source.
    #[error(
        "what the pull showed is hidden, because its source database was deleted or is private; open a new pull to show the branch"
    )]
    HiddenWithSource,
    /// It was closed by a release that did not store heads.
    #[error("the pull was closed before the server stored what pulls show; open a new pull to see the difference")]
    NoHeads,
}

/// Releases.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// The tag has no release.
    #[error("no release '{0}'")]
    NoSuchRelease(String),
    /// The commit does not exist.
    #[error("no commit '{0}'")]
    NoSuchCommit(String),
    /// The tag does not exist.
    #[error("no tag '{0}'; create it first, or ask for it to be created")]
    NoSuchTag(String),
    /// The tag has a release.
    #[error("tag '{0}' has a release already")]
    Exists(String),
    /// The tag names another commit.
    #[error("tag '{0}' points to another commit")]
    TagElsewhere(String),
    /// It is not as the caller saw it.
    #[error("the release changed since it was read")]
    Changed,
    /// Getting at the database failed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A port failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Reading by SQL.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The ref does not resolve.
    #[error(transparent)]
    Ref(#[from] RefError),
    /// A table asked for does not exist.
    #[error("no table '{0}'")]
    NoSuchTable(String),
    /// A column asked for does not exist.
    #[error("no column '{0}'")]
    NoSuchColumn(String),
    /// Took longer than allowed, in milliseconds.
    #[error("timed out after {0} ms")]
    TimedOut(u64),
    /// A port failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Accepting and finding operations.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    /// Unknown, or not for this caller.
    #[error("no such operation")]
    NoSuchOperation,
    /// Readable, but not the caller's to cancel.
    #[error("only its creator or a writer of the database may cancel an operation")]
    Denied,
    /// What somebody started is listed for them alone.
    #[error("only the user who started them may list operations of all databases")]
    NotYours,
    /// Only queued operations can be canceled.
    #[error("the operation is not queued any more")]
    NotQueued,
    /// As many operations wait as are allowed.
    #[error("{0} operations are waiting on this database; try again when some have finished")]
    QueueFull(u64),
    /// The branch to start from does not exist.
    #[error("no branch '{0}'")]
    NoSuchBranch(String),
    /// The caller may not create for this owner.
    #[error("you may not create databases for '{0}'")]
    MayNotCreateFor(String),
    /// The fork's name is taken, or being taken.
    #[error("'{0}' exists already or is being created")]
    NameTaken(String),
    /// The new owner has as many databases as are allowed.
    #[error("the owner has {0} databases, as many as are allowed")]
    TooManyDatabases(u64),
    /// Getting at the database failed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A port failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Uploads and imports.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// Fields that break a rule: name of the field and what is wrong.
    #[error("the request has invalid fields")]
    Fields(Vec<(&'static str, String)>),
    /// The file is larger than allowed.
    #[error("a file may have {limit} bytes, this one has {size}")]
    TooLarge {
        /// Announced bytes.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// A file that was not announced is larger than allowed.
    #[error("the file has more than {0} bytes")]
    FileTooLarge(u64),
    /// A file that was not announced has no bytes.
    #[error("the file is empty")]
    EmptyFile,
    /// Too many unused sessions.
    #[error("{0} upload sessions are open; use them or wait until they expire")]
    TooManyUploads(u64),
    /// Unknown or expired session, or not a part of it.
    #[error("the upload session is unknown or has expired")]
    NoSuchUpload,
    /// The session was used by an import.
    #[error("the upload was already used by operation {0}")]
    UploadUsed(String),
    /// A part is empty.
    #[error("the part is empty")]
    EmptyPart,
    /// The parts are larger than announced.
    #[error("the parts exceed the announced {0} bytes")]
    PartTooLarge(u64),
    /// The bytes of a part are not those the sender meant.
    #[error("the part does not match its Content-MD5")]
    PartChecksum,
    /// The client went away, or the bytes could not be read.
    #[error("the part was cut short")]
    PartCutShort(#[source] std::io::Error),
    /// The target branch does not exist.
    #[error("no branch '{0}'")]
    NoSuchBranch(String),
    /// As many operations wait as are allowed.
    #[error("{0} operations are waiting on this database; try again when some have finished")]
    QueueFull(u64),
    /// Getting at the database failed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A port failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Hooks and their deliveries.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// No such hook of this database.
    #[error("no such hook")]
    NoSuchHook,
    /// No such delivery of this hook.
    #[error("no such delivery")]
    NoSuchDelivery,
    /// A hook cannot have this address.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The database has as many hooks as are allowed.
    #[error("the database has {0} hooks, as many as are allowed; delete one first")]
    TooMany(u64),
    /// It is on its way already.
    #[error("the delivery is still pending; wait until it is delivered or has failed")]
    StillPending,
    /// It is not as the caller saw it.
    #[error("the hook changed since it was read")]
    Changed,
    /// Getting at the database failed.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A port failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

macro_rules! from_ports {
    ($($family:ident),+) => {$(
        impl From<MetadataError> for $family {
            fn from(error: MetadataError) -> Self {
                Self::Fault(Fault::Metadata(error))
            }
        }

        impl From<EngineError> for $family {
            fn from(error: EngineError) -> Self {
                Self::Fault(Fault::Engine(error))
            }
        }

        impl From<BlobsError> for $family {
            fn from(error: BlobsError) -> Self {
                Self::Fault(Fault::Blobs(error))
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

impl From<FormatError> for Fault {
    fn from(error: FormatError) -> Self {
        Self::Engine(EngineError::Import(error))
    }
}
