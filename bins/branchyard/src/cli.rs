//! Command-line arguments. Scripts depend on the names of commands and flags, so these are a stable contract.

use std::path::PathBuf;

use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};

/// A self-hosted home for versioned SQL databases.
#[derive(Debug, Parser)]
#[command(name = "branchyard", version, about)]
#[command(after_help = "`branchyard --version --verbose` prints how this program was built.")]
pub struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// Returns the program's arguments without the commands that only the server itself starts.
#[must_use]
pub fn documented() -> clap::Command {
    let all = Cli::command();
    let visible: Vec<_> = all.get_subcommands().filter(|command| !command.is_hide_set()).cloned().collect();
    let described = clap::Command::new("branchyard")
        .version(env!("CARGO_PKG_VERSION"))
        .about(all.get_about().cloned().unwrap_or_default())
        .after_help(all.get_after_help().cloned().unwrap_or_default());
    described.subcommand_required(true).subcommands(visible)
}

/// The flags `--version --verbose`. `--version` alone is a flag of [`Cli`] and prints one line.
#[derive(Debug, Parser)]
#[command(disable_version_flag = true, disable_help_flag = true)]
pub struct VersionFlags {
    #[arg(short = 'V', long)]
    version: bool,
    #[arg(long)]
    verbose: bool,
}

impl VersionFlags {
    /// Returns `true` if the arguments of this process are these two flags.
    #[must_use]
    pub fn are_given() -> bool {
        Self::try_parse().is_ok_and(|flags| flags.version && flags.verbose)
    }
}

/// Location of the server's state and configuration.
#[derive(Debug, Clone, Default, Args)]
pub struct ServerLocation {
    /// Configuration file (TOML).
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// Folder that holds all server state [default: branchyard-data].
    #[arg(long, value_name = "DIR", global = true)]
    pub data_dir: Option<PathBuf>,
    /// Metadata store: a SQLite path or a postgres:// URL [default: a file in the data folder].
    #[arg(long, value_name = "URL", global = true)]
    pub metadata_url: Option<String>,
    /// Store of databases: file:///path, s3://bucket, gs://bucket or az://container [default: the data folder].
    #[arg(long, value_name = "URL", global = true)]
    pub store_url: Option<String>,
}

/// Flags of `serve`.
#[derive(Debug, Clone, Default, Args)]
pub struct Serve {
    /// Location of state and configuration.
    #[command(flatten)]
    pub place: ServerLocation,
    /// Address and port to listen on; port 0 selects a free port [default: 127.0.0.1:8080].
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<String>,
    /// Public origin that clients use [default: http:// and the listen address].
    #[arg(long, value_name = "URL")]
    pub public_url: Option<String>,
    /// Refuse to start if migrations are pending, instead of applying them.
    #[arg(long)]
    pub no_migrate: bool,
}

/// A command and its arguments.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the server.
    Serve(Serve),
    /// Run a server with a sample owner and real data.
    Demo {
        /// Address and port to listen on.
        #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
        listen: String,
        /// Folder that holds all server state.
        #[arg(long, value_name = "DIR", default_value = "branchyard-demo")]
        data_dir: PathBuf,
        /// Register a webhook for all events with this receiver and send it a ping. Private addresses of this machine are
        /// allowed.
        #[arg(long, value_name = "URL")]
        hook: Option<String>,
        /// Serve over TLS, with certificates of a local authority that it makes.
        #[arg(long)]
        tls: bool,
        /// Run a cluster of this many servers, at the given port and those after it. It needs a Postgres.
        #[arg(long, value_name = "NODES", value_parser = clap::value_parser!(u8).range(1..=9))]
        cluster: Option<u8>,
        /// The Postgres of the cluster. Without it, one is started for the demo if `initdb` is installed.
        #[arg(long, value_name = "URL", requires = "cluster")]
        metadata_url: Option<String>,
    },
    /// Manage users.
    User {
        /// Location of state and configuration.
        #[command(flatten)]
        place: ServerLocation,
        /// The action to take.
        #[command(subcommand)]
        action: UserAction,
    },
    /// Manage organizations.
    Org {
        /// Location of state and configuration.
        #[command(flatten)]
        place: ServerLocation,
        /// The action to take.
        #[command(subcommand)]
        action: OrgAction,
    },
    /// Manage API tokens.
    Token {
        /// Location of state and configuration.
        #[command(flatten)]
        place: ServerLocation,
        /// The action to take.
        #[command(subcommand)]
        action: TokenAction,
    },
    /// Manage browser sessions.
    Session {
        /// Location of state and configuration.
        #[command(flatten)]
        place: ServerLocation,
        /// The action to take.
        #[command(subcommand)]
        action: SessionAction,
    },
    /// Hide databases from everyone but the server's administrators.
    Database {
        /// Location of state and configuration.
        #[command(flatten)]
        place: ServerLocation,
        /// The action to take.
        #[command(subcommand)]
        action: DatabaseAction,
    },
    /// Manage the key ring, which seals secrets and signs tokens.
    Keys {
        /// Location of state and configuration.
        #[command(flatten)]
        place: ServerLocation,
        /// The action to take.
        #[command(subcommand)]
        action: KeysAction,
    },
    /// Manage the nodes of a cluster: servers that share a metadata store and a store of databases.
    Node {
        /// Location of state and configuration.
        #[command(flatten)]
        place: ServerLocation,
        /// The action to take.
        #[command(subcommand)]
        action: NodeAction,
    },
    /// Apply pending migrations to the metadata store.
    Migrate {
        /// Location of state and configuration.
        #[command(flatten)]
        place: ServerLocation,
        /// Only report pending migrations; exit with status 1 if there are any.
        #[arg(long)]
        check: bool,
    },
    /// Print the OpenAPI document of an API version.
    Openapi {
        /// The API version.
        #[arg(value_enum)]
        api: Api,
    },
    /// Print completions for a shell.
    Completions {
        /// The shell.
        #[arg(value_enum)]
        shell: CompletionShell,
    },
    /// Write the manual pages, one for each command.
    Man {
        /// Folder of the pages; created if missing.
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Check that a running server is ready; exit with status 1 if it is not.
    Healthcheck {
        /// Origin of the server.
        #[arg(long, default_value = "http://127.0.0.1:8080")]
        url: String,
    },
    /// Back up all state into an empty folder, also while the server runs.
    Backup {
        /// Location of state and configuration.
        #[command(flatten)]
        place: ServerLocation,
        /// Folder of the backup; created if missing.
        #[arg(long, value_name = "DIR")]
        to: PathBuf,
        /// Take the key ring too. Those who can read the backup can then open the secrets in it.
        #[arg(long)]
        with_keys: bool,
        /// Encrypt each file with age to this recipient; may be given several times.
        #[arg(long, value_name = "AGE_RECIPIENT")]
        encrypt_to: Vec<String>,
    },
    /// Restore a backup into an empty data folder and an empty metadata store.
    Restore {
        /// Location of the restored state and of the configuration.
        #[command(flatten)]
        place: ServerLocation,
        /// Folder of the backup.
        #[arg(long, value_name = "DIR")]
        from: PathBuf,
        /// Identity file of age, for an encrypted backup.
        #[arg(long, value_name = "FILE")]
        identity: Option<PathBuf>,
    },
    /// Serve a deployment's instance. The server starts this command itself.
    #[command(hide = true)]
    ServeDeployment {
        /// The `run` folder of the instance.
        #[arg(long, value_name = "DIR")]
        run_dir: PathBuf,
    },
    /// Create or check a database file of a deployment. The server starts this command itself, with a request on standard input.
    #[command(hide = true)]
    StageFiles {
        /// Folder of the engine in which the database is created.
        #[arg(long, value_name = "DIR")]
        folder: PathBuf,
        /// The file that the database is created from.
        #[arg(long, value_name = "FILE")]
        source: Option<PathBuf>,
    },
    /// Run users' SQL for the server. The server starts this command itself.
    #[command(hide = true)]
    SqlWorker {
        /// What the process is.
        role: std::ffi::OsString,
    },
    /// Remove what no branch, tag, release or pull request reaches from the files of databases. A running server does it
    /// in the background; without one this command does it.
    Gc {
        /// Location of state and configuration.
        #[command(flatten)]
        place: ServerLocation,
        /// The database [default: all databases].
        #[arg(value_name = "OWNER/DATABASE")]
        database: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Look after the store of databases.
    Store {
        /// Location of state and configuration.
        #[command(flatten)]
        place: ServerLocation,
        /// The action to take.
        #[command(subcommand)]
        action: StoreAction,
    },
    /// Look after what the servers with one store of databases have in common.
    Cluster {
        /// Location of state and configuration.
        #[command(flatten)]
        place: ServerLocation,
        /// The action to take.
        #[command(subcommand)]
        action: ClusterAction,
    },
    /// Clone a database of a server into a new file. If it is cut, the same command goes on.
    Clone {
        /// Address of the database, that of its page.
        #[arg(value_name = "URL")]
        url: String,
        /// The new file [default: the name of the database and .db].
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Fetch what is new on the branch that is checked out, and merge it.
    Pull {
        /// The database file [default: the only one in this folder that ends in .db].
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Name of the remote.
        #[arg(long, value_name = "NAME", default_value = "origin")]
        remote: String,
    },
    /// Push a branch to a server.
    Push {
        /// The branch, `local:remote`, `:remote` to delete a branch there, or a tag [default: the branch that is checked out].
        #[arg(value_name = "BRANCH")]
        branch: Option<String>,
        /// The database file [default: the only one in this folder that ends in .db].
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Name of the remote.
        #[arg(long, value_name = "NAME", default_value = "origin")]
        remote: String,
        /// Overwrite what the branch has there.
        #[arg(long)]
        force: bool,
    },
    /// Manage the remotes of a database file.
    Remote {
        /// The database file [default: the only one in this folder that ends in .db].
        #[arg(long, value_name = "FILE", global = true)]
        file: Option<PathBuf>,
        /// The action to take.
        #[command(subcommand)]
        action: RemoteAction,
    },
    /// Manage the keys by which this machine's clients authenticate to servers.
    Key {
        /// The action to take.
        #[command(subcommand)]
        action: KeyAction,
    },
    /// Check the configuration and all stored state; exit with status 1 if there are findings.
    Doctor {
        /// Location of state and configuration.
        #[command(flatten)]
        place: ServerLocation,
    },
}

/// The API versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Api {
    /// API v2.
    V2,
    /// API v1alpha1.
    V1alpha1,
    /// Hosted API v1.
    HostedV1,
}

/// The shells that completions are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompletionShell {
    /// GNU Bash.
    Bash,
    /// Z shell.
    Zsh,
    /// fish.
    Fish,
}

/// Actions on the remotes of a database file.
#[derive(Debug, Subcommand)]
pub enum RemoteAction {
    /// Add a remote.
    Add {
        /// Name of the remote.
        name: String,
        /// Its address.
        url: String,
    },
    /// List the remotes with their addresses.
    List,
    /// Remove a remote.
    Remove {
        /// Name of the remote.
        name: String,
    },
}

/// Actions on the keys of this machine's clients.
#[derive(Debug, Subcommand)]
pub enum KeyAction {
    /// Make a key and print its public half.
    New,
    /// List the keys: the one that is used has a star.
    List,
}

/// Actions on users.
#[derive(Debug, Subcommand)]
pub enum UserAction {
    /// Create a user.
    Create {
        /// User name.
        name: String,
        /// Primary email address, recorded in commits.
        #[arg(long)]
        email: String,
        /// Read a password from standard input.
        #[arg(long)]
        password_stdin: bool,
        /// Make the user an administrator of the server.
        #[arg(long)]
        admin: bool,
    },
    /// Set a new password for a user, read from standard input. All sessions of the user end; API tokens, keys
    /// and the access of applications remain without `--delete-tokens`.
    ResetPassword {
        /// User name.
        name: String,
        /// Delete all API tokens and keys of the user, and end the access of applications, too.
        #[arg(long)]
        delete_tokens: bool,
    },
    /// List all users by name.
    List {
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Suspend a user: refuse their password, tokens, keys and applications, end their sessions, and fail their queued
    /// operations.
    /// Their databases stay readable.
    Suspend {
        /// User name.
        name: String,
        /// Print a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Lift the suspension of a user.
    Resume {
        /// User name.
        name: String,
        /// Print a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Make a user an administrator of the server.
    MakeAdmin {
        /// User name.
        name: String,
        /// Print a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Delete a user, with tokens, keys, sessions, memberships and stars. Pull requests, comments and commits stay.
    /// Refused while the user owns databases or is the only owner of an organization.
    Delete {
        /// User name.
        name: String,
        /// Delete the databases of the user too, and organizations that have no other member.
        #[arg(long)]
        with_databases: bool,
        /// Erase the personal data in what stays: profile, email addresses, and the name, except in commits.
        #[arg(long)]
        erase: bool,
        /// Print what was deleted as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Write all that is stored about a user to a new folder, as JSON files.
    Export {
        /// User name.
        name: String,
        /// Folder to create. It must not exist.
        #[arg(long, value_name = "FOLDER")]
        to: PathBuf,
    },
}

/// Actions on sessions.
#[derive(Debug, Subcommand)]
pub enum SessionAction {
    /// List the sessions of a user, newest first.
    List {
        /// User name.
        user: String,
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// End a session, or all sessions of a user.
    End(Selected),
}

/// A credential, or all credentials of one user.
#[derive(Debug, Args)]
pub struct Selected {
    /// Id, as shown in the list.
    #[arg(required_unless_present = "user", conflicts_with = "user")]
    pub id: Option<String>,
    /// User whose credentials are meant; requires `--all`.
    #[arg(long, value_name = "NAME", requires = "all")]
    pub user: Option<String>,
    /// Select all of the user.
    #[arg(long, requires = "user", conflicts_with = "id")]
    pub all: bool,
    /// Print a JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Actions on databases.
#[derive(Debug, Subcommand)]
pub enum DatabaseAction {
    /// Hide a database from everyone but the server's administrators. Its queued operations, webhooks and deployments wait.
    Quarantine {
        /// The database.
        #[arg(value_name = "OWNER/NAME")]
        database: String,
        /// Print a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// End the quarantine of a database. What waited goes on.
    Release {
        /// The database.
        #[arg(value_name = "OWNER/NAME")]
        database: String,
        /// Print a JSON object.
        #[arg(long)]
        json: bool,
    },
}

/// Actions on organizations.
#[derive(Debug, Subcommand)]
pub enum OrgAction {
    /// Create an organization.
    Create {
        /// Name of the organization.
        name: String,
        /// User that owns the organization.
        #[arg(long, value_name = "USER")]
        owner: String,
    },
}

/// Actions on the key ring.
#[derive(Debug, Subcommand)]
pub enum KeysAction {
    /// Add a new key, also while the server runs. The server seals all secrets under it in the background.
    Rotate {
        /// Exchange the master key of a cluster instead: seal the key ring under the key in this file. Then set `server_key_file` to it on
        /// all nodes, and restart them.
        #[arg(long, value_name = "FILE")]
        master: Option<PathBuf>,
    },
    /// List the keys, newest first, with the number of webhooks and mirrors that have a secret under each.
    List {
        /// Print a JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Remove a key under which no secret is sealed. Page tokens, forms and part URLs that were made under it end.
    Remove {
        /// Id of the key, as `keys list` shows it.
        id: String,
    },
}

/// Actions on the store of databases.
#[derive(Debug, Subcommand)]
pub enum StoreAction {
    /// Wrap the keys of what is sealed in the store by the master key of `store.encryption_key_file` or `store.encryption_key_command`, after
    /// all servers were restarted with it and with the former one as `store.encryption_previous_key_file` or
    /// `store.encryption_previous_key_command`. Objects stay as they are.
    Rewrap {
        /// Print a JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Find objects that nothing refers to any more, and delete those that were found `store.grace` ago. Servers do so every hour.
    Collect {
        /// Change nothing, and print what would be done.
        #[arg(long)]
        dry_run: bool,
        /// Delete any number of objects. Otherwise it is 1,000, or a twentieth of the objects in use if these are more.
        #[arg(long)]
        force: bool,
        /// Print a JSON document.
        #[arg(long)]
        json: bool,
    },
}

/// Actions on a cluster.
#[derive(Debug, Subcommand)]
pub enum ClusterAction {
    /// Accept that the metadata were restored to an earlier time than the store of databases, after all servers were stopped. What the
    /// metadata lost is given up; its objects are kept for 30 days, and `cluster recover` makes branches of them.
    Accept {
        /// Print a JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Make branches of the commits of a database that the metadata lost, after `cluster accept`. Works beside running servers. Branches
    /// that exist are not changed.
    Recover {
        /// The database.
        #[arg(value_name = "OWNER/DATABASE")]
        database: String,
        /// Print a JSON document.
        #[arg(long)]
        json: bool,
    },
}

/// Actions on nodes.
#[derive(Debug, Subcommand)]
pub enum NodeAction {
    /// List the nodes by id, with the number of databases that each of them writes.
    List {
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Drain a node before its server is stopped: other nodes write its databases and run its operations, and `/readyz` answers 503.
    /// A restart does not end that.
    Drain {
        /// Id of the node.
        id: String,
        /// End the drain.
        #[arg(long)]
        undo: bool,
        /// Print a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Remove a node whose server has ended for good. Operations that it ran are run again elsewhere.
    Remove {
        /// Id of the node.
        id: String,
        /// Print a JSON object.
        #[arg(long)]
        json: bool,
    },
}

/// Actions on tokens.
#[derive(Debug, Subcommand)]
pub enum TokenAction {
    /// Create a token and print only the token on standard output. It cannot be shown again.
    Create {
        /// User that the token belongs to.
        #[arg(long, value_name = "USER")]
        user: String,
        /// Label that identifies the token in lists.
        #[arg(long, value_name = "LABEL")]
        name: String,
        /// Lifetime of the token.
        #[arg(long, value_name = "30d|60d|90d|1y")]
        expires: String,
    },
    /// List the tokens of a user, newest first, without their secrets.
    List {
        /// User name.
        user: String,
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Revoke a token, or all tokens and keys of a user and the access of applications.
    Revoke(Selected),
}
