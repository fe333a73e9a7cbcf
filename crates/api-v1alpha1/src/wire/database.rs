use serde::Serialize;

/// The database of a path.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct DatabaseEcho {
    pub(crate) database_owner: String,
    pub(crate) database_name: String,
}

/// A database that was, or was to be, created.
#[derive(Debug, Serialize)]
pub(crate) struct Created {
    pub(crate) description: String,
    pub(crate) repository_owner: String,
    pub(crate) repository_name: String,
    pub(crate) visibility: String,
}

/// A fork in a list.
#[derive(Debug, Serialize)]
pub(crate) struct DatabaseRef {
    pub(crate) database_owner: String,
    pub(crate) database_name: String,
}

/// What stands around the list of forks.
#[derive(Debug, Serialize)]
pub(crate) struct Forks {
    #[serde(flatten)]
    pub(crate) echo: DatabaseEcho,
    pub(crate) parent_owner: String,
    pub(crate) parent_database_name: String,
    pub(crate) network_root_owner: String,
    pub(crate) network_root_database_name: String,
    pub(crate) fork_network_count: u64,
}

/// A fork that was asked for.
#[derive(Debug, Serialize)]
pub(crate) struct ForkEcho {
    pub(crate) parent_owner: String,
    pub(crate) parent_database: String,
    pub(crate) forked_owner: String,
}

/// A fork that is being made.
#[derive(Debug, Serialize)]
pub(crate) struct ForkStarted {
    #[serde(flatten)]
    pub(crate) echo: ForkEcho,
    pub(crate) operation_name: String,
}

/// How a fork stands. While it is pending the names are empty: clients take names for the end.
#[derive(Debug, Serialize)]
pub(crate) struct ForkPoll {
    pub(crate) status: &'static str,
    pub(crate) done: bool,
    pub(crate) operation_name: String,
    pub(crate) database_owner: String,
    pub(crate) owner_name: String,
    pub(crate) database_name: String,
}

/// A fork that failed.
#[derive(Debug, Serialize)]
pub(crate) struct ForkRefused {
    pub(crate) status: &'static str,
    pub(crate) message: String,
    pub(crate) operation_name: String,
    pub(crate) done: bool,
}
