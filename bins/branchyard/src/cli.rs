//! The command line. Its words are a contract: scripts rely on them.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// A self-hosted home for versioned SQL databases.
#[derive(Debug, Parser)]
#[command(name = "branchyard", version, about)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Where the server's state and configuration are.
#[derive(Debug, Clone, Default, Args)]
pub struct ServerLocation {
    /// Configuration file (TOML).
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// Folder that holds everything [default: branchyard-data].
    #[arg(long, value_name = "DIR", global = true)]
    pub data_dir: Option<PathBuf>,
    /// Metadata store: a SQLite path or a postgres:// URL [default: a file in the data folder].
    #[arg(long, value_name = "URL", global = true)]
    pub metadata_url: Option<String>,
}

/// Flags of `serve`.
#[derive(Debug, Clone, Default, Args)]
pub struct Serve {
    /// Where state and configuration are.
    #[command(flatten)]
    pub place: ServerLocation,
    /// Address and port to listen on; port 0 takes a free one [default: 127.0.0.1:8080].
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<String>,
    /// Public origin, as clients see it [default: http:// and the listen address].
    #[arg(long, value_name = "URL")]
    pub public_url: Option<String>,
    /// Refuse to start when migrations are pending, instead of running them.
    #[arg(long)]
    pub no_migrate: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the server.
    Serve(Serve),
    /// Run a server with a sample owner and real data loaded.
    Demo {
        /// Address and port to listen on.
        #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
        listen: String,
        /// Folder that holds everything.
        #[arg(long, value_name = "DIR", default_value = "branchyard-demo")]
        data_dir: PathBuf,
        /// Register a hook for all events to this receiver, which may be on this machine, and send it a ping.
        #[arg(long, value_name = "URL")]
        hook: Option<String>,
    },
    /// Manage users.
    User {
        /// Where state and configuration are.
        #[command(flatten)]
        place: ServerLocation,
        /// What to do.
        #[command(subcommand)]
        action: UserAction,
    },
    /// Manage organizations.
    Org {
        /// Where state and configuration are.
        #[command(flatten)]
        place: ServerLocation,
        /// What to do.
        #[command(subcommand)]
        action: OrgAction,
    },
    /// Manage API tokens.
    Token {
        /// Where state and configuration are.
        #[command(flatten)]
        place: ServerLocation,
        /// What to do.
        #[command(subcommand)]
        action: TokenAction,
    },
    /// Bring the metadata store up to date.
    Migrate {
        /// Where state and configuration are.
        #[command(flatten)]
        place: ServerLocation,
        /// Only say whether anything is pending; exit 1 if so.
        #[arg(long)]
        check: bool,
    },
    /// Print the OpenAPI document of an API version.
    Openapi {
        /// Which API.
        #[arg(value_enum)]
        api: Api,
    },
    /// Ask a running server whether it is ready; exit 1 if not.
    Healthcheck {
        /// Origin of the server.
        #[arg(long, default_value = "http://127.0.0.1:8080")]
        url: String,
    },
    /// Copy everything into an empty folder, also while the server runs.
    Backup {
        /// Where state and configuration are.
        #[command(flatten)]
        place: ServerLocation,
        /// The folder of the backup; made when missing.
        #[arg(long, value_name = "DIR")]
        to: PathBuf,
    },
    /// Bring a backup into an empty data folder and an empty metadata store.
    Restore {
        /// Where state and configuration are to be.
        #[command(flatten)]
        place: ServerLocation,
        /// The folder of the backup.
        #[arg(long, value_name = "DIR")]
        from: PathBuf,
    },
    /// Serve a deployment's instance; started by the server.
    #[command(hide = true)]
    ServeDeployment {
        /// The instance's folder `run`.
        #[arg(long, value_name = "DIR")]
        run_dir: PathBuf,
    },
    /// Check the configuration and everything stored; exit 1 on findings.
    Doctor {
        /// Where state and configuration are.
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

/// What to do with users.
#[derive(Debug, Subcommand)]
pub enum UserAction {
    /// Make a user.
    Create {
        /// User name.
        name: String,
        /// Primary email address; commits carry it.
        #[arg(long)]
        email: String,
        /// Read a password from standard input.
        #[arg(long)]
        password_stdin: bool,
        /// Make the user an administrator of the server.
        #[arg(long)]
        admin: bool,
    },
    /// Give a user a new password, read from standard input. It ends all sessions of the user; tokens stay.
    ResetPassword {
        /// User name.
        name: String,
    },
}

/// What to do with organizations.
#[derive(Debug, Subcommand)]
pub enum OrgAction {
    /// Make an organization.
    Create {
        /// Its name.
        name: String,
        /// The user who owns it.
        #[arg(long, value_name = "USER")]
        owner: String,
    },
}

/// What to do with tokens.
#[derive(Debug, Subcommand)]
pub enum TokenAction {
    /// Make a token and print it, alone, on standard output. It cannot be shown again.
    Create {
        /// Whose token.
        #[arg(long, value_name = "USER")]
        user: String,
        /// A label to know it by.
        #[arg(long, value_name = "LABEL")]
        name: String,
        /// How long it works.
        #[arg(long, value_name = "30d|60d|90d|1y")]
        expires: String,
    },
}
