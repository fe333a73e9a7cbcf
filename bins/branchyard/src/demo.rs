//! The `branchyard demo` command: a server with a sample owner and real data.

mod cluster;
mod data;
mod hook;
mod story;
mod tls;

use std::path::{Path, PathBuf};

use branchyard_auth::{PlainPassword, PlainToken, TokenExpiry};
use branchyard_domain::Hub;
use branchyard_domain::entities::HookSecret;
use branchyard_domain::errors::PeopleError;
use branchyard_domain::values::OwnerName;
use data_encoding::HEXLOWER;

use crate::commands::print;
use crate::compose::{Environment, Pending};
use crate::config::Config;
use crate::logging;
use crate::serve::{Running, announce};

/// Where and how the demo serves.
pub struct DemoOptions {
    /// The address to listen on.
    pub listen: String,
    /// The folder of all state.
    pub data_dir: PathBuf,
    /// The receiver of a webhook to register.
    pub hook: Option<String>,
    /// Whether to serve over TLS.
    pub tls: bool,
}

/// Runs the demo until a signal stops it. The data is loaded on the first run.
///
/// # Errors
/// Fails if the server cannot start or the data cannot be loaded.
pub fn run(options: &DemoOptions) -> anyhow::Result<()> {
    let (data_dir, listen) = (options.data_dir.clone(), options.listen.clone());
    let mut config = Config { data_dir, listen, ..Config::default() };
    let authority = configure(&mut config, &options.data_dir, options.tls)?;
    let _log = logging::start(&config)?;
    let running = Running::start(&config, &Environment::default(), Pending::Migrate)?;
    let access = prepare(&running.hub, options.hook.as_deref())?;
    print(greeting(running.origin(), &access, &config.data_dir, authority.as_deref()))?;
    print_rest(running.origin(), &access, options.hook.as_deref(), authority.as_deref())?;
    let signals = running.watch_signals()?;
    announce(format!("listening on {}", running.origin()));
    running.until_stopped(signals)
}

/// Runs the demo as a cluster of `nodes` servers until a signal stops it. The data is loaded on the first run.
///
/// # Errors
/// Fails if there is no Postgres, if a server cannot start, if the data cannot be loaded, or once all servers have ended.
pub fn run_cluster(options: &DemoOptions, nodes: u8, metadata_url: Option<String>) -> anyhow::Result<()> {
    cluster::run(options, nodes, metadata_url)
}

/// Changes a configuration to that of a demo. Returns the certificate of the authority that it makes in `dir`, if it serves over TLS.
fn configure(config: &mut Config, dir: &Path, over_tls: bool) -> anyhow::Result<Option<PathBuf>> {
    // Standard error is the terminal on which the greeting is read.
    config.log.access = 0.0;
    // The receiver of the demo's webhook usually runs on the same machine, and so do servers to mirror.
    config.hooks.allowed_cidrs = ["127.0.0.0/8", "::1/128"].map(str::to_owned).to_vec();
    config.remotes.allowed_cidrs.clone_from(&config.hooks.allowed_cidrs);
    if !over_tls {
        return Ok(None);
    }
    let certificates = tls::make(dir)?;
    config.tls.cert = Some(certificates.cert);
    config.tls.key = Some(certificates.key);
    Ok(Some(certificates.authority))
}

/// What a person needs to use the demo.
struct DemoAccess {
    token: String,
    password: String,
    hook_secret: Option<HookSecret>,
}

/// Loads the data on the first run, and makes new credentials.
fn prepare(hub: &Hub, hook: Option<&str>) -> anyhow::Result<DemoAccess> {
    if is_new(hub)? {
        print("loading countries, currencies and languages …")?;
        story::tell(hub)?;
    }
    let hook_secret = hook.map(|url| hook::register(hub, url)).transpose()?;
    Ok(DemoAccess { token: token(hub)?, password: password(hub)?, hook_secret })
}

/// Prints what follows the greeting: how DoltLite's clients use the demo, and its webhook.
fn print_rest(address: &str, access: &DemoAccess, hook: Option<&str>, authority: Option<&Path>) -> anyhow::Result<()> {
    if let Some(authority) = authority {
        print(remote_lines(address, authority))?;
    }
    if let (Some(url), Some(secret)) = (hook, &access.hook_secret) {
        print(format!("  hook       {url}; deliveries are signed with {}\n", secret.expose()))?;
    }
    Ok(())
}

fn is_new(hub: &Hub) -> anyhow::Result<bool> {
    match hub.people().find_user(&OwnerName::parse(story::OWNER)?) {
        Ok(_) => Ok(false),
        Err(PeopleError::NoSuchUser(_)) => Ok(true),
        Err(other) => Err(other.into()),
    }
}

/// Creates a new token and deletes the token of the previous run, whose secret cannot be shown again.
fn token(hub: &Hub) -> anyhow::Result<String> {
    let user = hub.people().find_user(&OwnerName::parse(story::OWNER)?)?;
    for old in hub.tokens().list(&user, None, 100)? {
        if old.name == "demo" {
            hub.tokens().delete(&user, old.id)?;
        }
    }
    let minted = hub.tokens().create(&user, "demo", TokenExpiry::Days30, PlainToken::mint(&mut rand::rng()), None)?;
    Ok(minted.secret.expose().to_owned())
}

/// Sets a new random password for the web pages.
fn password(hub: &Hub) -> anyhow::Result<String> {
    let user = hub.people().find_user(&OwnerName::parse(story::OWNER)?)?;
    let mut random = [0; 8];
    hub.random(&mut random);
    let text = HEXLOWER.encode(&random);
    let hash = PlainPassword::new(text.clone())?.hash_from(&mut |buffer| hub.random(buffer))?;
    hub.sessions().reset_password(&user, &hash, false)?;
    Ok(text)
}

/// Returns the lines with which DoltLite's clients use the demo.
fn remote_lines(address: &str, authority: &Path) -> String {
    format!(
        r#"DoltLite's clients trust the certificate of the demo with this in their environment:

  export DOLTLITE_CA_FILE='{authority}' DOLTLITE_LOGIN_URL='{address}/settings/keys'

  SELECT dolt_creds_new();          -- once; add the printed key at {address}/settings/keys
  SELECT dolt_clone('{address}/{owner}/{database}');
  SELECT dolt_push('origin', 'main');
"#,
        authority = std::path::absolute(authority).unwrap_or_else(|_| authority.to_owned()).display(),
        owner = story::OWNER,
        database = story::DATABASE,
    )
}

fn greeting(address: &str, access: &DemoAccess, dir: &Path, authority: Option<&Path>) -> String {
    let DemoAccess { token, password, .. } = access;
    let curl = match authority {
        Some(authority) => format!("curl --cacert '{}'", authority.display()),
        None => "curl".to_owned(),
    };
    let api = format!("{address}/api/v2");
    let atlas = format!("{api}/databases/{}/{}", story::OWNER, story::DATABASE);
    let dir = dir.display();
    format!(
        r#"
Branchyard is running at {address}

  database   {owner}/{database}: countries, currencies and the languages spoken
  token      {token}
             of {owner}; shown once, works for 30 days
  sign in    at {address}/sign-in as {owner}, password {password}
             a new one at each start
  data       {dir}; stop with Ctrl-C, wipe by deleting the folder

Try these; each line works as pasted:

  {curl} '{atlas}/sql?q=select+name,population+from+countries+order+by+population+desc+limit+5'
  {curl} '{atlas}/pulls'
  {curl} '{atlas}/pulls/2/diff'
  {curl} -H 'Authorization: Bearer {token}' -H 'Content-Type: application/json' -H 'Prefer: wait=20' '{atlas}/sql-writes' -d '{{"from_branch":"main","to_branch":"mine","q":"update countries set population = population + 1 where code = '"'NZ'"'"}}'
  {curl} -H 'Authorization: Bearer {token}' '{api}/user'
"#,
        owner = story::OWNER,
        database = story::DATABASE,
    )
}
