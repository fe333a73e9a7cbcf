use serde::Serialize;

/// The database of a path.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct DatabaseEcho {
    pub(crate) database_owner: String,
    pub(crate) database_name: String,
}

/// The database of a request to create one.
#[derive(Debug, Serialize)]
pub(crate) struct Created {
    pub(crate) description: String,
    pub(crate) repository_owner: String,
    pub(crate) repository_name: String,
    pub(crate) visibility: String,
}

/// A fork as a list item.
#[derive(Debug, Serialize)]
pub(crate) struct DatabaseRef {
    pub(crate) database_owner: String,
    pub(crate) database_name: String,
}

/// The fields beside the list of forks.
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

/// The fork of a request to create one.
#[derive(Debug, Serialize)]
pub(crate) struct ForkEcho {
    pub(crate) parent_owner: String,
    pub(crate) parent_database: String,
    pub(crate) forked_owner: String,
}

/// A fork whose operation was started.
#[derive(Debug, Serialize)]
pub(crate) struct ForkStarted {
    #[serde(flatten)]
    pub(crate) echo: ForkEcho,
    pub(crate) operation_name: String,
}

/// The poll of a fork. The names are empty while it is pending, because clients take a name for the end.
#[derive(Debug, Serialize)]
pub(crate) struct ForkPoll {
    pub(crate) status: &'static str,
    pub(crate) done: bool,
    pub(crate) operation_name: String,
    pub(crate) database_owner: String,
    pub(crate) owner_name: String,
    pub(crate) database_name: String,
}

/// The poll of a fork that failed.
#[derive(Debug, Serialize)]
pub(crate) struct ForkRefused {
    pub(crate) status: &'static str,
    pub(crate) message: String,
    pub(crate) operation_name: String,
    pub(crate) done: bool,
}
