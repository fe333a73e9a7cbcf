//! The commands other than `serve` and `demo`.

mod accounts;
mod administration;
mod backup;
mod cluster;
mod completions;
mod deployment_backups;
mod doctor;
mod gc;
mod healthcheck;
mod keys;
mod man;
mod migrate;
mod nodes;
mod recover;
mod restore;
mod store;
mod tokens;

use std::io::{ErrorKind, Write as _};

use branchyard_domain::usecases::DeleteUser;

use self::backup::BackupOptions;
use crate::cli::{
    Api, Cli, ClusterAction, Command, DatabaseAction, OrgAction, SessionAction, StoreAction, TokenAction, UserAction,
};
use crate::compose::{Environment, Pending, Role, Stores};
use crate::config::Config;
use crate::demo::DemoOptions;
use crate::sealed_files::Recipients;
use crate::{cli, client, demo, deployments, serve};

/// Runs a command to completion.
///
/// # Errors
/// Returns the message to print for the user.
pub fn run(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Command::Serve(args) => serve::run(&Config::load_for_serve(&args)?, args.no_migrate),
        Command::Demo { listen, data_dir, hook, tls, cluster, metadata_url } => {
            let options = DemoOptions { listen, data_dir, hook, tls };
            match cluster {
                None => demo::run(&options),
                Some(nodes) => demo::run_cluster(&options, nodes, metadata_url),
            }
        }
        Command::User { place, action: UserAction::Create { name, email, password_stdin, admin } } => {
            accounts::create_user(&stores(&place)?.hub, &name, &email, password_stdin, admin)
        }
        Command::User { place, action: UserAction::ResetPassword { name, delete_tokens } } => {
            accounts::reset_password(&stores(&place)?.hub, &name, delete_tokens)
        }
        Command::User { place, action: UserAction::List { json } } => {
            administration::list_users(&stores(&place)?.hub, json)
        }
        Command::User { place, action: UserAction::Suspend { name, json } } => {
            administration::suspend(&stores(&place)?.hub, &name, json)
        }
        Command::User { place, action: UserAction::Resume { name, json } } => {
            administration::resume(&stores(&place)?.hub, &name, json)
        }
        Command::User { place, action: UserAction::MakeAdmin { name, json } } => {
            administration::make_admin(&stores(&place)?.hub, &name, json)
        }
        Command::Token { place, action: TokenAction::List { user, json } } => {
            administration::list_tokens(&stores(&place)?.hub, &user, json)
        }
        Command::Token { place, action: TokenAction::Revoke(selected) } => {
            administration::revoke_tokens(&stores(&place)?.hub, &selected)
        }
        Command::Session { place, action: SessionAction::List { user, json } } => {
            administration::list_sessions(&stores(&place)?.hub, &user, json)
        }
        Command::Session { place, action: SessionAction::End(selected) } => {
            administration::end_sessions(&stores(&place)?.hub, &selected)
        }
        Command::Database { place, action: DatabaseAction::Quarantine { database, json } } => {
            administration::quarantine(&stores(&place)?.hub, &database, json)
        }
        Command::Database { place, action: DatabaseAction::Release { database, json } } => {
            administration::release(&stores(&place)?.hub, &database, json)
        }
        Command::User { place, action: UserAction::Delete { name, with_databases, erase, json } } => {
            accounts::delete_user(&stores(&place)?.hub, &name, DeleteUser { with_databases, erase }, json)
        }
        Command::User { place, action: UserAction::Export { name, to } } => {
            accounts::export_user(&stores(&place)?.hub, &name, &to)
        }
        Command::Org { place, action: OrgAction::Create { name, owner } } => {
            accounts::create_organization(&stores(&place)?.hub, &name, &owner)
        }
        Command::Token { place, action: TokenAction::Create { user, name, expires } } => {
            tokens::create(&stores(&place)?.hub, &user, &name, &expires)
        }
        Command::Keys { place, action } => keys::run(&stores(&place)?, action),
        Command::Node { place, action } => nodes::run(&stores(&place)?, &action),
        Command::Migrate { place, check } => migrate::run(&Config::load(&place)?, check),
        Command::Openapi { api: Api::V2 } => print(branchyard_api_v2::openapi()),
        Command::Openapi { api: Api::V1alpha1 } => print(branchyard_api_v1alpha1::openapi()),
        Command::Openapi { api: Api::HostedV1 } => print(branchyard_api_hosted_v1::openapi()),
        Command::Completions { shell } => completions::run(shell),
        Command::Man { folder } => man::run(&folder),
        Command::Healthcheck { url } => healthcheck::run(&url),
        Command::Backup { place, to, with_keys, encrypt_to } => {
            let options = BackupOptions { with_keys, recipients: Recipients::parse(&encrypt_to)? };
            backup::run(&Config::load(&place)?, &to, &options)
        }
        Command::Restore { place, from, identity } => restore::run(&Config::load(&place)?, &from, identity.as_deref()),
        Command::ServeDeployment { run_dir } => deployments::serve(&run_dir),
        Command::StageFiles { folder, source } => deployments::stage_files(&folder, source.as_deref()),
        #[cfg(target_os = "linux")]
        Command::SqlWorker { .. } => sql_worker(),
        #[cfg(not(target_os = "linux"))]
        Command::SqlWorker { .. } => anyhow::bail!("worker processes run on Linux only"),
        Command::Gc { place, database, json } => gc::run(&Config::load(&place)?, database.as_deref(), json),
        Command::Store { place, action: StoreAction::Collect { dry_run, force, json } } => {
            store::collect(&Config::load(&place)?, dry_run, force, json)
        }
        Command::Store { place, action: StoreAction::Rewrap { json } } => store::rewrap(&Config::load(&place)?, json),
        Command::Cluster { place, action: ClusterAction::Accept { json } } => {
            cluster::accept(&Config::load(&place)?, json)
        }
        Command::Cluster { place, action: ClusterAction::Recover { database, json } } => {
            recover::run(&Config::load(&place)?, &database, json)
        }
        Command::Clone { url, file } => client::clone(&url, file),
        Command::Pull { file, remote } => client::pull(file, &remote),
        Command::Push { branch, file, remote, force } => client::push(file, &remote, branch, force),
        Command::Remote { file, action } => client::remote(file, action),
        Command::Key { action } => client::key(action),
        Command::Doctor { place } => doctor::run(&Config::load(&place)?),
    }
}

/// Runs users' SQL for the server, until it ends.
#[cfg(target_os = "linux")]
fn sql_worker() -> anyhow::Result<()> {
    let ended = branchyard_engine_process::run_command(std::env::args_os().skip(1).collect());
    anyhow::ensure!(ended == std::process::ExitCode::SUCCESS, "a worker process failed");
    Ok(())
}

/// Opens the stores for an administrative command. These commands can run beside a running server, because the metadata store is
/// shared and the engine's files are not written.
fn stores(place: &cli::ServerLocation) -> anyhow::Result<Stores> {
    Stores::open(&Config::load(place)?, &Environment::default(), Pending::Migrate, Role::Command)
}

/// Writes one line to standard error, for a person.
pub(crate) fn print_note(line: &str) -> anyhow::Result<()> {
    Ok(writeln!(std::io::stderr().lock(), "{line}")?)
}

/// Writes one line to standard output and flushes it, because scripts read the output. A pipe whose reader has closed it is no
/// error.
pub(crate) fn print(line: impl std::fmt::Display) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        // The reader has what it wanted.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}
