//! The `branchyard demo` command: a server with a sample owner and real data.

mod data;
mod hook;
mod story;
mod tls;

use std::path::{Path, PathBuf};

use branchyard_auth::{PlainPassword, PlainToken, TokenExpiry};
use branchyard_domain::Hub;
use branchyard_domain::errors::PeopleError;
use branchyard_domain::values::OwnerName;
use data_encoding::HEXLOWER;

use crate::commands::print;
use crate::compose::{Environment, Pending};
use crate::config::Config;
use crate::logging;
use crate::serve::{Running, announce};

/// Runs the demo until a signal stops it. The data is loaded on the first run.
///
/// # Errors
/// Fails if the server cannot start or the data cannot be loaded.
pub fn run(listen: String, data_dir: PathBuf, hook: Option<&str>, over_tls: bool) -> anyhow::Result<()> {
    let mut config = Config { data_dir, listen, ..Config::default() };
    // Standard error is the terminal on which the greeting is read.
    config.log.access = 0.0;
    let _log = logging::start(&config)?;
    // The receiver of the demo's webhook usually runs on the same machine, and so do servers to mirror.
    config.hooks.allowed_cidrs = ["127.0.0.0/8", "::1/128"].map(str::to_owned).to_vec();
    config.remotes.allowed_cidrs.clone_from(&config.hooks.allowed_cidrs);
    let certificates = over_tls.then(|| tls::make(&config.data_dir)).transpose()?;
    if let Some(certificates) = &certificates {
        config.tls.cert = Some(certificates.cert.clone());
        config.tls.key = Some(certificates.key.clone());
    }
    let running = Running::start(&config, &Environment::default(), Pending::Migrate)?;
    if is_new(&running.hub)? {
        print("loading countries, currencies and languages …")?;
        story::tell(&running.hub)?;
    }
    let token = token(&running.hub)?;
    let password = password(&running.hub)?;
    let authority = certificates.as_ref().map(|certificates| certificates.authority.as_path());
    print(greeting(running.origin(), &token, &password, &config, authority))?;
    if let Some(authority) = authority {
        print(remote_lines(running.origin(), authority))?;
    }
    if let Some(url) = hook {
        let secret = hook::register(&running.hub, url)?;
        print(format!("  hook       {url}; deliveries are signed with {}\n", secret.expose()))?;
    }
    let signals = running.watch_signals()?;
    announce(format!("listening on {}", running.origin()));
    running.until_stopped(signals)
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

fn greeting(address: &str, token: &str, password: &str, config: &Config, authority: Option<&Path>) -> String {
    let curl = match authority {
        Some(authority) => format!("curl --cacert '{}'", authority.display()),
        None => "curl".to_owned(),
    };
    let api = format!("{address}/api/v2");
    let atlas = format!("{api}/databases/{}/{}", story::OWNER, story::DATABASE);
    let dir = config.data_dir.display();
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
