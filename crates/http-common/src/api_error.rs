//! Maps the domain's errors to problem documents, for all API versions. There are no `_` arms on our own enums, so that a new
//! variant needs a decision.

use branchyard_deployments::errors::{DeploymentError, DeploymentField};
use branchyard_domain::errors::{
    AccessError, AdministrationError, ApplicationError, AtTimeError, CollaboratorError, DatabaseError, EditError,
    EditFault, GrantError, HistoryError, HookError, ImportError, ImportField, KeyError, MirrorError, NodeError,
    OperationError, OrganizationError, PeopleError, PortError, PullError, PullStateError, QuotaError, ReadError,
    RefError, ReleaseError, RemoteError, RowHistoryError, SignUpError, TokenError,
};
use branchyard_domain::ports::{AddressError, ClusterError, EngineError, MetadataError};
use branchyard_domain::values::Timestamp;
use branchyard_problem_details::{ErrorCode, FieldError, Problem, escape_pointer_token};

use crate::time::rfc3339;

/// The error of a use case, before it becomes a response.
#[derive(Debug)]
pub enum ApiError {
    /// An error for the client.
    Problem(Problem),
    /// A fault for the operator's log.
    Port(PortError),
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl From<PortError> for ApiError {
    fn from(fault: PortError) -> Self {
        match fault {
            PortError::KeyTaken => key_in_flight().into(),
            PortError::StorageLow => storage_low().into(),
            PortError::ReadOnly => read_only().into(),
            PortError::Metadata(_)
            | PortError::Engine(_)
            | PortError::Blobs(_)
            | PortError::External(_)
            | PortError::Unsettled(_) => Self::Port(fault),
        }
    }
}

/// Returns the 409 for an idempotency key whose first request is still running.
pub(crate) fn key_in_flight() -> Problem {
    Problem::new(ErrorCode::Conflict, "a request with this idempotency key is still running").retry_after(1)
}

/// Returns the 503 for a change that would need storage while it is low.
pub(crate) fn storage_low() -> Problem {
    Problem::new(ErrorCode::ServiceUnavailable, PortError::StorageLow.to_string()).retry_after(60)
}

/// Returns the 503 for a change while nothing may be changed.
pub(crate) fn read_only() -> Problem {
    Problem::new(ErrorCode::ServiceUnavailable, PortError::ReadOnly.to_string()).retry_after(60)
}

/// Returns the problem that the client receives for a fault. The fault itself goes to the operator's log.
pub(crate) fn problem_of_fault(fault: &PortError) -> Problem {
    let unavailable = match fault {
        PortError::Metadata(MetadataError::Unavailable(_)) | PortError::Unsettled(_) => true,
        PortError::Metadata(MetadataError::Taken | MetadataError::Fault { .. }) => false,
        PortError::Engine(error @ EngineError::UnknownFormat { .. }) => {
            return Problem::new(ErrorCode::ServiceUnavailable, error.to_string());
        }
        PortError::Engine(error) => match error {
            EngineError::Unavailable(_) | EngineError::TimedOut(_) | EngineError::Busy => true,
            EngineError::Sql { .. }
            | EngineError::Import(_)
            | EngineError::NoSuchCommit(_)
            | EngineError::NoSuchTable(_)
            | EngineError::TableExists(_)
            | EngineError::CannotMerge(_)
            | EngineError::Damaged(_)
            | EngineError::DamagedCommit { .. }
            | EngineError::UnknownFormat { .. }
            | EngineError::Fault { .. } => false,
        },
        PortError::Blobs(error) => error.full || error.temporary,
        PortError::External(fault) => fault.is_temporary(),
        PortError::KeyTaken => return key_in_flight(),
        PortError::StorageLow => return storage_low(),
        PortError::ReadOnly => return read_only(),
    };
    match unavailable {
        true => Problem::new(ErrorCode::ServiceUnavailable, "the server cannot do this just now; try again"),
        false => Problem::internal(),
    }
}

/// Returns how requests spell a field of a deployment, as a JSON pointer (RFC 6901).
pub fn pointer_of(field: DeploymentField) -> &'static str {
    match field {
        DeploymentField::Cloud => "/cloud",
        DeploymentField::Zone => "/zone",
        DeploymentField::InstanceType => "/instance_type_id",
        DeploymentField::VolumeType => "/volume_type_id",
        DeploymentField::VolumeSize => "/volume_size_gb",
        DeploymentField::Backup => "/backup_id",
        DeploymentField::Database => "/database",
    }
}

fn at(pointer: &str, error: &impl ToString) -> Problem {
    let text = error.to_string();
    Problem::new(ErrorCode::ValidationFailed, text.clone()).with_error(FieldError::at_pointer(pointer, text))
}

fn plain(code: ErrorCode, error: &impl ToString) -> ApiError {
    Problem::new(code, error.to_string()).into()
}

impl From<RemoteError> for ApiError {
    fn from(error: RemoteError) -> Self {
        match error {
            RemoteError::Empty(_) => plain(ErrorCode::NotFound, &error),
            RemoteError::TooManyRefs(_) | RemoteError::TooLarge(_) => plain(ErrorCode::PayloadTooLarge, &error),
            RemoteError::NoPushes => plain(ErrorCode::NotFound, &error),
            RemoteError::InvalidRef(_) | RemoteError::NoSuchRef(_) | RemoteError::WrongHash(_) => {
                plain(ErrorCode::ValidationFailed, &error)
            }
            RemoteError::RefsChanged | RemoteError::MissingChunks | RemoteError::InUse(_) => {
                plain(ErrorCode::Conflict, &error)
            }
            RemoteError::Rejected(_) | RemoteError::NotFastForward(_) => plain(ErrorCode::Unprocessable, &error),
            RemoteError::Busy(_) => plain(ErrorCode::ServiceUnavailable, &error),
            RemoteError::NotAllowed(_) => plain(ErrorCode::PermissionDenied, &error),
            RemoteError::Internal(_) => plain(ErrorCode::Internal, &error),
            RemoteError::Quota(error) => error.into(),
            RemoteError::Access(error) => error.into(),
            RemoteError::Port(fault) => fault.into(),
        }
    }
}

impl From<AccessError> for ApiError {
    fn from(error: AccessError) -> Self {
        match error {
            AccessError::SignInRequired => plain(ErrorCode::Unauthenticated, &error),
            AccessError::NoSuchDatabase => Problem::no_such_repository().into(),
            AccessError::Denied(_) => plain(ErrorCode::PermissionDenied, &error),
            AccessError::Mirror => plain(ErrorCode::Unprocessable, &error),
            AccessError::Port(fault) => fault.into(),
        }
    }
}

impl From<PeopleError> for ApiError {
    fn from(error: PeopleError) -> Self {
        match error {
            PeopleError::NameTaken(_) | PeopleError::NameReserved(_) | PeopleError::NameRetired(_) => {
                plain(ErrorCode::Conflict, &error)
            }
            PeopleError::LastAdministrator(_)
            | PeopleError::OwnsThings { .. }
            | PeopleError::OnlyOwner { .. }
            | PeopleError::OwnsOthers { .. } => plain(ErrorCode::Conflict, &error),
            PeopleError::EmailKnown | PeopleError::PrimaryEmail => plain(ErrorCode::Conflict, &error),
            PeopleError::TooManyEmails(_) => plain(ErrorCode::Unprocessable, &error),
            PeopleError::NoSuchUser(_) | PeopleError::NoSuchEmail => plain(ErrorCode::NotFound, &error),
            PeopleError::Port(fault) => fault.into(),
        }
    }
}

impl From<SignUpError> for ApiError {
    fn from(error: SignUpError) -> Self {
        match error {
            SignUpError::Closed
            | SignUpError::InvitationNeeded
            | SignUpError::NoSuchInvitation
            | SignUpError::NotYours => plain(ErrorCode::PermissionDenied, &error),
            SignUpError::TooManyInvitations(_) => plain(ErrorCode::Conflict, &error),
            SignUpError::People(error) => error.into(),
            SignUpError::Port(fault) => fault.into(),
        }
    }
}

impl From<OrganizationError> for ApiError {
    fn from(error: OrganizationError) -> Self {
        match error {
            OrganizationError::SignInRequired => plain(ErrorCode::Unauthenticated, &error),
            OrganizationError::NoSuchOrganization | OrganizationError::NoSuchMember(_) => {
                plain(ErrorCode::NotFound, &error)
            }
            OrganizationError::Denied(_) => plain(ErrorCode::PermissionDenied, &error),
            OrganizationError::NoOwnerLeft | OrganizationError::TooMany(_) => plain(ErrorCode::Unprocessable, &error),
            OrganizationError::OwnsDatabases(_) | OrganizationError::OwnsOthers(_) => {
                plain(ErrorCode::Conflict, &error)
            }
            OrganizationError::Changed => plain(ErrorCode::PreconditionFailed, &error),
            OrganizationError::People(error) => error.into(),
            OrganizationError::Port(fault) => fault.into(),
        }
    }
}

impl From<CollaboratorError> for ApiError {
    fn from(error: CollaboratorError) -> Self {
        match error {
            CollaboratorError::NoSuchCollaborator(_) => plain(ErrorCode::NotFound, &error),
            CollaboratorError::IsOwner(_) => plain(ErrorCode::Unprocessable, &error),
            CollaboratorError::Access(error) => error.into(),
            CollaboratorError::Port(fault) => fault.into(),
        }
    }
}

impl From<KeyError> for ApiError {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Invalid(_) | KeyError::NoKey(_) => plain(ErrorCode::ValidationFailed, &error),
            KeyError::Taken => plain(ErrorCode::Conflict, &error),
            KeyError::TooMany(_) => plain(ErrorCode::Unprocessable, &error),
            KeyError::NoSuchKey => plain(ErrorCode::NotFound, &error),
            KeyError::Port(fault) => fault.into(),
        }
    }
}

impl From<TokenError> for ApiError {
    fn from(error: TokenError) -> Self {
        match error {
            TokenError::Invalid(_) => plain(ErrorCode::ValidationFailed, &error),
            TokenError::TooMany(_) => plain(ErrorCode::Unprocessable, &error),
            TokenError::NoSuchToken => plain(ErrorCode::NotFound, &error),
            TokenError::Port(fault) => fault.into(),
        }
    }
}

impl From<ApplicationError> for ApiError {
    fn from(error: ApplicationError) -> Self {
        match error {
            ApplicationError::Name(_) | ApplicationError::RedirectUri(_) | ApplicationError::RedirectUriCount(_) => {
                plain(ErrorCode::ValidationFailed, &error)
            }
            ApplicationError::TooMany(_) => plain(ErrorCode::Unprocessable, &error),
            ApplicationError::NoSuchOwner => plain(ErrorCode::Conflict, &error),
            ApplicationError::NoSuchApplication => plain(ErrorCode::NotFound, &error),
            ApplicationError::Port(fault) => fault.into(),
        }
    }
}

/// For pages. The endpoints of OAuth answer by the codes of its standards.
impl From<GrantError> for ApiError {
    fn from(error: GrantError) -> Self {
        match error {
            GrantError::NoSuchGrant => plain(ErrorCode::NotFound, &error),
            GrantError::TooManyDevices => plain(ErrorCode::ServiceUnavailable, &error),
            GrantError::Port(fault) => fault.into(),
            _ => plain(ErrorCode::ValidationFailed, &error),
        }
    }
}

impl From<AdministrationError> for ApiError {
    fn from(error: AdministrationError) -> Self {
        match error {
            AdministrationError::NotAdministrator => plain(ErrorCode::PermissionDenied, &error),
            AdministrationError::NoSuchUser(_)
            | AdministrationError::NoSuchToken(_)
            | AdministrationError::NoSuchSession(_)
            | AdministrationError::NoSuchGrant(_)
            | AdministrationError::NoSuchApplication(_)
            | AdministrationError::NoSuchDatabase(_) => plain(ErrorCode::NotFound, &error),
            AdministrationError::LastAdministrator(_) => plain(ErrorCode::Unprocessable, &error),
            AdministrationError::Port(fault) => fault.into(),
        }
    }
}

impl From<NodeError> for ApiError {
    fn from(error: NodeError) -> Self {
        match error {
            NodeError::Refused(ClusterError::NoSuchNode { .. }) => plain(ErrorCode::NotFound, &error),
            NodeError::NoCluster | NodeError::Refused(_) => plain(ErrorCode::Unprocessable, &error),
            NodeError::Port(fault) => fault.into(),
        }
    }
}

impl From<HistoryError> for ApiError {
    fn from(error: HistoryError) -> Self {
        let at = |code, text: String| {
            Problem::new(code, text.clone()).with_error(FieldError::at_pointer("/at", text)).into()
        };
        match error {
            HistoryError::Future => at(ErrorCode::ValidationFailed, error.to_string()),
            HistoryError::TooEarly(from) => {
                // The next millisecond, because times are shown without what follows it.
                let from = rfc3339(Timestamp::from_micros(from.as_micros().saturating_add(999)));
                at(ErrorCode::Unprocessable, format!("{error}; it begins at {from}"))
            }
            HistoryError::Off => plain(ErrorCode::Unprocessable, &error),
            HistoryError::NoBranch(_) => plain(ErrorCode::NotFound, &error),
            HistoryError::Gone(_) => plain(ErrorCode::Unprocessable, &error),
            HistoryError::Port(fault) => fault.into(),
        }
    }
}

impl From<DatabaseError> for ApiError {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::MayNotCreateFor(_) => plain(ErrorCode::PermissionDenied, &error),
            DatabaseError::NameTaken(_) => plain(ErrorCode::Conflict, &error),
            DatabaseError::TooMany(_) => plain(ErrorCode::Unprocessable, &error),
            DatabaseError::NoSuchBranch(_) => plain(ErrorCode::NotFound, &error),
            DatabaseError::ParentPrivate => {
                let text = error.to_string();
                let problem = Problem::new(ErrorCode::Unprocessable, text.clone());
                problem.with_error(FieldError::at_pointer("/visibility", text)).into()
            }
            DatabaseError::Changed => plain(ErrorCode::PreconditionFailed, &error),
            DatabaseError::Quota(error) => error.into(),
            DatabaseError::Mirror(error) => mirror_error(*error, "/mirror_of"),
            DatabaseError::Access(error) => error.into(),
            DatabaseError::Port(fault) => fault.into(),
        }
    }
}

/// Returns the response for an error of a mirror whose fields are below `pointer`.
fn mirror_error(error: MirrorError, pointer: &str) -> ApiError {
    let in_field = |code, name: &str, why: String| {
        Problem::new(code, error.to_string())
            .with_error(FieldError::at_pointer(format!("{pointer}/{name}"), why))
            .into()
    };
    match error {
        MirrorError::NoMirror | MirrorError::Unavailable => plain(ErrorCode::NotFound, &error),
        MirrorError::Address(AddressError::Invalid(ref why)) => {
            in_field(ErrorCode::ValidationFailed, "url", why.clone())
        }
        MirrorError::Address(ref why) => in_field(ErrorCode::Unprocessable, "url", why.to_string()),
        MirrorError::Interval => in_field(ErrorCode::ValidationFailed, "interval_seconds", error.to_string()),
        MirrorError::Operation(error) => error.into(),
        MirrorError::Access(error) => error.into(),
        MirrorError::Port(fault) => fault.into(),
    }
}

impl From<MirrorError> for ApiError {
    fn from(error: MirrorError) -> Self {
        mirror_error(error, "")
    }
}

impl From<RefError> for ApiError {
    fn from(error: RefError) -> Self {
        match error {
            RefError::NoSuchRef { .. } | RefError::NoSuchBranch(_) | RefError::NoSuchTag(_) | RefError::NotKept => {
                plain(ErrorCode::NotFound, &error)
            }
            RefError::BranchExists(_) | RefError::TagExists(_) | RefError::InUse(_) | RefError::ReleaseUsesTag(_) => {
                plain(ErrorCode::Conflict, &error)
            }
            RefError::DefaultBranch(_) | RefError::NotBehind { .. } => plain(ErrorCode::Unprocessable, &error),
            RefError::AmbiguousCommit { ref commits, .. } => {
                let entries = commits.iter().map(|commit| FieldError::anywhere(commit.to_string()));
                entries.fold(Problem::new(ErrorCode::Unprocessable, error.to_string()), Problem::with_error).into()
            }
            RefError::Changed => plain(ErrorCode::PreconditionFailed, &error),
            RefError::Access(error) => error.into(),
            RefError::Port(fault) => fault.into(),
        }
    }
}

impl From<PullError> for ApiError {
    fn from(error: PullError) -> Self {
        match error {
            PullError::NoSuchPull => Problem::no_such_pull().into(),
            PullError::NoSuchSource => Problem::no_such_repository().into(),
            PullError::OtherTarget(_) => at("/to_branch/database", &error).into(),
            PullError::OtherNetwork(_) => at("/from_branch/database", &error).into(),
            PullError::SameBranch => at("/from_branch", &error).into(),
            PullError::NoSuchBranch { .. } | PullError::NoSuchTable(_) => plain(ErrorCode::NotFound, &error),
            PullError::Duplicate(_) | PullError::Merging(_) => plain(ErrorCode::Conflict, &error),
            PullError::State(PullStateError::Merged | PullStateError::Closed)
            | PullError::BranchGone(_)
            | PullError::BranchMissing(_)
            | PullError::CannotMerge(_) => plain(ErrorCode::Unprocessable, &error),
            PullError::NotYours | PullError::SourceDenied | PullError::NotSourceAdmin => {
                plain(ErrorCode::PermissionDenied, &error)
            }
            PullError::NeedsPublish => {
                let text = error.to_string();
                let problem = Problem::new(ErrorCode::Unprocessable, text.clone());
                problem.with_error(FieldError::at_pointer("/publish", text)).into()
            }
            PullError::NotShown(_) => plain(ErrorCode::Unprocessable, &error),
            PullError::Changed => plain(ErrorCode::PreconditionFailed, &error),
            PullError::TooSlow | PullError::Preparing | PullError::TooManyPreviews => {
                plain(ErrorCode::ServiceUnavailable, &error)
            }
            PullError::QueueFull(_) => plain(ErrorCode::RateLimited, &error),
            PullError::Quota(error) => error.into(),
            PullError::Access(error) => error.into(),
            PullError::Port(fault) => fault.into(),
        }
    }
}

impl From<ReleaseError> for ApiError {
    fn from(error: ReleaseError) -> Self {
        match error {
            ReleaseError::Commit(error) => error.into(),
            ReleaseError::NoSuchRelease(_) | ReleaseError::NoSuchCommit(_) | ReleaseError::NoSuchTag(_) => {
                plain(ErrorCode::NotFound, &error)
            }
            ReleaseError::Exists(_) | ReleaseError::TagElsewhere(_) => plain(ErrorCode::Conflict, &error),
            ReleaseError::Changed => plain(ErrorCode::PreconditionFailed, &error),
            ReleaseError::Access(error) => error.into(),
            ReleaseError::Port(fault) => fault.into(),
        }
    }
}

impl From<AtTimeError> for ApiError {
    fn from(error: AtTimeError) -> Self {
        match error {
            AtTimeError::NotABranch(_) => {
                let text = error.to_string();
                let problem = Problem::new(ErrorCode::ValidationFailed, text.clone());
                problem.with_error(FieldError::at_parameter("at", text)).into()
            }
            AtTimeError::NotThen(_) | AtTimeError::TooFar(_) => plain(ErrorCode::Unprocessable, &error),
            AtTimeError::Ref(error) => error.into(),
            AtTimeError::Port(fault) => fault.into(),
        }
    }
}

impl From<RowHistoryError> for ApiError {
    fn from(error: RowHistoryError) -> Self {
        match error {
            RowHistoryError::IsView(_) | RowHistoryError::NoPrimaryKey(_) => plain(ErrorCode::Unprocessable, &error),
            RowHistoryError::Key(faults) => {
                let texts: Vec<String> = faults.iter().map(ToString::to_string).collect();
                let first = texts.first().cloned().unwrap_or_default();
                let errors: Vec<FieldError> =
                    texts.into_iter().map(|text| FieldError::at_parameter("key", text)).collect();
                Problem::new(ErrorCode::ValidationFailed, format!("key: {first}")).with_errors(errors).into()
            }
            RowHistoryError::NoSuchRow(_) => plain(ErrorCode::NotFound, &error),
            RowHistoryError::Read(error) => error.into(),
            RowHistoryError::Port(fault) => fault.into(),
        }
    }
}

impl From<ReadError> for ApiError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Ref(error) => error.into(),
            ReadError::NoSuchTable(_) => plain(ErrorCode::NotFound, &error),
            ReadError::NoSuchColumn(_) => plain(ErrorCode::ValidationFailed, &error),
            ReadError::Content(_) => plain(ErrorCode::Unprocessable, &error),
            ReadError::TimedOut(_) => plain(ErrorCode::Unprocessable, &error),
            ReadError::Port(fault) => fault.into(),
        }
    }
}

impl From<QuotaError> for ApiError {
    fn from(error: QuotaError) -> Self {
        match error {
            QuotaError::Bytes(_) => plain(ErrorCode::Unprocessable, &error),
            QuotaError::Operations { retry_after_seconds, .. } => {
                Problem::new(ErrorCode::RateLimited, error.to_string()).retry_after(retry_after_seconds).into()
            }
        }
    }
}

impl From<OperationError> for ApiError {
    fn from(error: OperationError) -> Self {
        match error {
            OperationError::NoSuchOperation | OperationError::NoSuchBranch(_) => plain(ErrorCode::NotFound, &error),
            OperationError::Denied | OperationError::NotYours | OperationError::MayNotCreateFor(_) => {
                plain(ErrorCode::PermissionDenied, &error)
            }
            OperationError::NotQueued | OperationError::OtherHead(_) => plain(ErrorCode::Conflict, &error),
            OperationError::QueueFull(_) => plain(ErrorCode::RateLimited, &error),
            OperationError::Quota(error) => error.into(),
            OperationError::NameTaken(_) | OperationError::BranchExists(_) | OperationError::TooManyDatabases(_) => {
                plain(ErrorCode::Unprocessable, &error)
            }
            OperationError::History(error) => error.into(),
            OperationError::Edit(error) => error.into(),
            OperationError::Access(error) => error.into(),
            OperationError::Port(fault) => fault.into(),
        }
    }
}

impl From<EditError> for ApiError {
    fn from(error: EditError) -> Self {
        match error {
            EditError::Base(error) => error.into(),
            EditError::NoSuchTable(_) => plain(ErrorCode::NotFound, &error),
            EditError::Rows(ref faults) => {
                let problem = Problem::new(ErrorCode::Unprocessable, error.to_string());
                faults.iter().map(edit_fault).fold(problem, Problem::with_error).into()
            }
            EditError::Port(fault) => fault.into(),
        }
    }
}

fn edit_fault(fault: &EditFault) -> FieldError {
    let pointer = match fault {
        EditFault::NoSuchColumn { row, column, in_key } => {
            let field = if *in_key { "key" } else { "set" };
            format!("/rows/{row}/{field}/{}", escape_pointer_token(column))
        }
        EditFault::IncompleteKey { row, .. } | EditFault::NoKey { row } => format!("/rows/{row}/key"),
        EditFault::NothingSet { row } => format!("/rows/{row}/set"),
    };
    FieldError::at_pointer(pointer, fault.to_string())
}

/// Returns the name of a field of an import in the body of a request of v2.
pub fn import_field_name(field: &ImportField) -> &'static str {
    match field {
        ImportField::ContentLength => "content_length",
        ImportField::PartCount => "num_parts",
        ImportField::FileType => "file_type",
        ImportField::Branch => "branch_name",
        ImportField::Table => "table_name",
        ImportField::FileName => "file_name",
        ImportField::PullBranch => "pull_request_branch_name",
        ImportField::Message => "commit_message",
        ImportField::PrimaryKeys => "primary_keys",
        ImportField::ColumnMap => "column_map",
        ImportField::ColumnTypes | ImportField::ColumnType(_) => "column_types",
        ImportField::Delimiter => "delimiter",
        ImportField::Encoding => "encoding",
        ImportField::Upload => "contents_key",
        ImportField::UploadToken => "token",
        ImportField::FileSize => "file_size",
        ImportField::Parts => "completed_parts",
        ImportField::Checksum => "file_parts_md5",
    }
}

/// Returns the pointer to a field of an import.
fn import_pointer(field: &ImportField) -> String {
    let name = import_field_name(field);
    match field {
        ImportField::ColumnType(column) => format!("/{name}/{}", escape_pointer_token(column)),
        _ => format!("/{name}"),
    }
}

impl From<ImportError> for ApiError {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Fields(ref wrong) => {
                let named = |(field, text): &(ImportField, String)| format!("{}: {text}", import_field_name(field));
                let detail = wrong.first().map_or_else(|| error.to_string(), named);
                let entries =
                    wrong.iter().map(|(field, text)| FieldError::at_pointer(import_pointer(field), text.clone()));
                Problem::new(ErrorCode::ValidationFailed, detail).with_errors(entries).into()
            }
            ImportError::TooLarge { .. } | ImportError::FileTooLarge(_) | ImportError::PartTooLarge(_) => {
                plain(ErrorCode::PayloadTooLarge, &error)
            }
            ImportError::EmptyFile => at("/file", &error).into(),
            ImportError::TooManyUploads(_) | ImportError::QueueFull(_) => plain(ErrorCode::RateLimited, &error),
            ImportError::Quota(error) => error.into(),
            ImportError::NoSuchUpload => plain(ErrorCode::PermissionDenied, &error),
            ImportError::UploadUsed(_) => plain(ErrorCode::Conflict, &error),
            ImportError::EmptyPart | ImportError::PartChecksum | ImportError::PartCutShort(_) => {
                plain(ErrorCode::ValidationFailed, &error)
            }
            ImportError::NoSuchBranch(_) => plain(ErrorCode::NotFound, &error),
            ImportError::Access(error) => error.into(),
            ImportError::Port(fault) => fault.into(),
        }
    }
}

impl From<HookError> for ApiError {
    fn from(error: HookError) -> Self {
        match error {
            HookError::NoSuchHook | HookError::NoSuchDelivery => plain(ErrorCode::NotFound, &error),
            HookError::Address(AddressError::Invalid(_)) => at("/url", &error).into(),
            HookError::Address(AddressError::Refused(ref why)) => {
                let problem = Problem::new(ErrorCode::Unprocessable, format!("url: {why}"));
                problem.with_error(FieldError::at_pointer("/url", why.clone())).into()
            }
            HookError::Address(AddressError::TooManyLookups(_)) => {
                Problem::new(ErrorCode::RateLimited, error.to_string()).retry_after(1).into()
            }
            HookError::Address(AddressError::Busy) => {
                Problem::new(ErrorCode::ServiceUnavailable, error.to_string()).retry_after(1).into()
            }
            HookError::TooMany(_) => plain(ErrorCode::Unprocessable, &error),
            HookError::StillPending => plain(ErrorCode::Conflict, &error),
            HookError::Changed => plain(ErrorCode::PreconditionFailed, &error),
            HookError::Access(error) => error.into(),
            HookError::Port(fault) => fault.into(),
        }
    }
}

impl From<DeploymentError> for ApiError {
    fn from(error: DeploymentError) -> Self {
        let in_field = |code, pointer: &str, why: &str| {
            let name = pointer.trim_start_matches('/');
            let problem = Problem::new(code, format!("{name}: {why}"));
            problem.with_error(FieldError::at_pointer(pointer, why)).into()
        };
        match error {
            DeploymentError::SignInRequired => plain(ErrorCode::Unauthenticated, &error),
            DeploymentError::NoSuchDeployment(_)
            | DeploymentError::NoSuchOwner(_)
            | DeploymentError::Absent { .. }
            | DeploymentError::NoSuchOperation => plain(ErrorCode::NotFound, &error),
            DeploymentError::NoSuchSource(_) => in_field(ErrorCode::NotFound, "/from_database", &error.to_string()),
            DeploymentError::Denied(_) | DeploymentError::OwnerOnly | DeploymentError::MayNotCreateFor(_) => {
                plain(ErrorCode::PermissionDenied, &error)
            }
            DeploymentError::NameTaken(_) | DeploymentError::Conflict(_) => plain(ErrorCode::Conflict, &error),
            DeploymentError::Field { field, why } => in_field(ErrorCode::Unprocessable, pointer_of(field), &why),
            DeploymentError::BadField { field, why } => in_field(ErrorCode::ValidationFailed, pointer_of(field), &why),
            DeploymentError::Settings(ref wrong) => {
                let entry = |(key, why): &(String, String)| {
                    FieldError::at_pointer(format!("/overrides/{}", escape_pointer_token(key)), why.clone())
                };
                let detail = wrong.first().map_or_else(|| error.to_string(), |(key, why)| format!("{key}: {why}"));
                Problem::new(ErrorCode::Unprocessable, detail).with_errors(wrong.iter().map(entry)).into()
            }
            DeploymentError::Unprocessable(_) => plain(ErrorCode::Unprocessable, &error),
            DeploymentError::Unsupported(_) => plain(ErrorCode::Unsupported, &error),
            DeploymentError::Spending { limit, committed, requested } => {
                Problem::new(ErrorCode::SpendingLimitExceeded, error.to_string())
                    .with_member("limit_usd", limit.to_string())
                    .with_member("committed_usd", committed.to_string())
                    .with_member("requested_usd", requested.to_string())
                    .into()
            }
            DeploymentError::Capacity(_) => plain(ErrorCode::CapacityExceeded, &error),
            DeploymentError::Unconfirmed(_) => in_field(ErrorCode::ValidationFailed, "/confirm", &error.to_string()),
            DeploymentError::Changed => plain(ErrorCode::PreconditionFailed, &error),
            DeploymentError::Access(error) => error.into(),
            DeploymentError::Port(fault) => fault.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ApiError, problem_of_fault};
    use branchyard_domain::errors::{AccessError, PortError, RefError};
    use branchyard_domain::ports::MetadataError;

    #[test]
    fn a_cause_never_reaches_the_client() {
        let fault = PortError::Metadata(MetadataError::Fault { context: "MARKER", source: "MARKER".into() });
        let problem = problem_of_fault(&fault);
        assert_eq!(problem.status(), 500);
        assert!(!format!("{problem:?}").contains("MARKER"));
        let fault = PortError::Metadata(MetadataError::Unavailable("MARKER".into()));
        let problem = problem_of_fault(&fault);
        assert_eq!(problem.status(), 503);
        assert!(!format!("{problem:?}").contains("MARKER"));
    }

    #[test]
    fn nested_errors_keep_their_own_problem() {
        let refusal = ApiError::from(RefError::Access(AccessError::NoSuchDatabase));
        let ApiError::Problem(problem) = refusal else { panic!("a problem") };
        assert_eq!((problem.status(), problem.detail()), (404, "no such repository"));
    }
}
