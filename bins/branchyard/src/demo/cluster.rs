//! The demo as a cluster: several servers on one machine, each a process with a data folder of its own, over one Postgres and one store
//! of databases in a folder.

mod config_file;
mod node_process;
mod postgres;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use branchyard_domain::ports::Ids as _;
use branchyard_runtime::SystemIds;

use self::node_process::NodeProcess;
use self::postgres::DemoPostgres;
use super::{DemoOptions, configure, greeting, prepare, print_rest};
use crate::commands::print;
use crate::compose::{Environment, Pending};
use crate::config::{Config, Span};
use crate::logging;
use crate::private;
use crate::serve::{Running, StopSignals, announce};

/// Folder of the cluster in the demo's folder, where a demo without one keeps other data.
const FOLDER: &str = "cluster";
/// The lease of a node. Shorter than the default, so that a person who kills a node waits less.
const LEASE_SECONDS: u64 = 5;
/// Interval at which the processes are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long the processes have to end before they are killed.
const END_WITHIN: Duration = Duration::from_secs(60);

/// The number of signals that have asked the demo to stop.
#[derive(Clone, Default)]
struct StopCount(Arc<AtomicUsize>);

impl StopCount {
    /// Counts SIGTERM and SIGINT from now on, which would end this process at once otherwise.
    fn watch(runtime: &tokio::runtime::Runtime) -> anyhow::Result<Self> {
        let mut signals = runtime.block_on(async { StopSignals::new() }).context("cannot watch for signals")?;
        let count = Self::default();
        let counted = count.clone();
        runtime.spawn(async move {
            loop {
                signals.next().await;
                counted.0.fetch_add(1, Ordering::Relaxed);
            }
        });
        Ok(count)
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn is_stopped(&self) -> bool {
        self.get() > 0
    }
}

/// The processes of the demo, which end with this value.
struct DemoProcesses {
    nodes: Vec<NodeProcess>,
    postgres: Option<DemoPostgres>,
    stops: StopCount,
}

impl DemoProcesses {
    /// Waits until a signal asks to stop. Prints it if a node ends by itself, or is killed.
    fn watch(&mut self) -> anyhow::Result<()> {
        while !self.stops.is_stopped() {
            if let Some(postgres) = &mut self.postgres {
                postgres.require_running()?;
            }
            for node in &mut self.nodes {
                if let Some(status) = node.newly_ended()? {
                    announce(format!("{} has ended ({status}). Start it again: {}", node.id, node.command()));
                }
            }
            if self.nodes.iter().all(NodeProcess::has_ended) {
                bail!("all nodes have ended");
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Ends all processes: the nodes as a supervisor does, so that they finish what they do, and Postgres after them.
    fn end(&mut self) {
        let until = Instant::now() + END_WITHIN;
        let mut asked = 0;
        while self.nodes.iter_mut().any(|node| !node.look_for_end()) {
            // Each further signal is passed on: a server that gets a second one hurries.
            let wanted = self.stops.get().max(1);
            if asked < wanted {
                self.nodes.iter().for_each(NodeProcess::terminate);
                asked = wanted;
            }
            if Instant::now() > until {
                self.nodes.iter_mut().for_each(NodeProcess::kill);
            }
            thread::sleep(LOOK_EVERY);
        }
        if let Some(postgres) = self.postgres.take() {
            postgres.end();
        }
    }
}

impl Drop for DemoProcesses {
    fn drop(&mut self) {
        self.end();
    }
}

/// The folder and the settings of the cluster.
struct DemoCluster {
    dir: PathBuf,
    metadata_url: String,
    /// The port of the first node. The others have the next ones; 0 selects free ports.
    listen: SocketAddr,
    nodes: u8,
    over_tls: bool,
}

impl DemoCluster {
    /// Returns the configurations of the nodes, and the certificate of the authority that signed theirs.
    fn configs(&self) -> anyhow::Result<(Vec<Config>, Option<PathBuf>)> {
        let server_key_file = self.dir.join("server_key");
        create_key(&server_key_file)?;
        let mut shared = Config {
            metadata_url: Some(self.metadata_url.clone()),
            store_url: Some(format!("file://{}", self.dir.join("store").display())),
            server_key_file: Some(server_key_file),
            ..Config::default()
        };
        shared.cluster.lease = Span::seconds(LEASE_SECONDS);
        let authority = configure(&mut shared, &self.dir, self.over_tls)?;
        let configs = (0..self.nodes).map(|number| {
            let id = format!("node-{}", number + 1);
            let port = match self.listen.port() {
                0 => 0,
                first => first.checked_add(number.into()).context("the ports end at 65535; choose a lower one")?,
            };
            let listen = SocketAddr::new(self.listen.ip(), port).to_string();
            Ok(Config { data_dir: self.dir.join(&id), node_id: Some(id), listen, ..shared.clone() })
        });
        Ok((configs.collect::<anyhow::Result<_>>()?, authority))
    }
}

/// Creates the master key of the cluster, unless an earlier run did.
fn create_key(path: &Path) -> anyhow::Result<()> {
    if path.exists() {
        return Ok(());
    }
    let mut key = [0; 32];
    SystemIds.fill(&mut key);
    let unfinished = path.with_extension("new");
    fs::write(&unfinished, key).and_then(|()| fs::rename(&unfinished, path)).context("cannot write the master key")
}

/// Runs the cluster until a signal stops it.
pub(super) fn run(options: &DemoOptions, nodes: u8, metadata_url: Option<String>) -> anyhow::Result<()> {
    let listen: SocketAddr = options
        .listen
        .parse()
        .with_context(|| format!("--listen is '{}'; with --cluster, write an IP address and a port", options.listen))?;
    let dir = std::path::absolute(&options.data_dir)?.join(FOLDER);
    fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let stops = StopCount::watch(&runtime)?;
    let mut processes = DemoProcesses { nodes: Vec::new(), postgres: None, stops: stops.clone() };
    // A URL with a password was moved from the command line to the environment.
    let metadata_url = match metadata_url.or_else(|| std::env::var(private::VARIABLE).ok()) {
        Some(url) => url,
        None => {
            let postgres = processes.postgres.insert(DemoPostgres::start(&dir.join("postgres"))?);
            postgres.wait_until_ready(&|| stops.is_stopped())?;
            postgres.url()
        }
    };
    let cluster = DemoCluster { dir, metadata_url, listen, nodes, over_tls: options.tls };
    let (configs, authority) = cluster.configs()?;
    let first = configs.first().context("a cluster has a node")?;
    let _log = logging::start(first)?;

    // The first node runs in this process for as long as it loads the data.
    let config = Config { listen: SocketAddr::new(listen.ip(), 0).to_string(), ..first.clone() };
    let running = Running::start(&config, &Environment::default(), Pending::Migrate)?;
    let prepared = prepare(&running.hub, options.hook.as_deref());
    running.stop()?;
    let access = prepared?;

    for config in &configs {
        if stops.is_stopped() {
            return Ok(());
        }
        processes.nodes.push(NodeProcess::start(config, &cluster.dir)?);
        let started = processes.nodes.last_mut().context("it was just added")?;
        started.wait_until_ready(&|| stops.is_stopped())?;
    }
    let origin = processes.nodes.first().map(|node| node.origin.clone()).unwrap_or_default();
    print(greeting(&origin, &access, &options.data_dir, authority.as_deref()))?;
    print_rest(&origin, &access, options.hook.as_deref(), authority.as_deref())?;
    print(node_lines(&processes.nodes, &cluster.dir))?;
    announce(format!("listening on {origin}"));
    processes.watch()
}

/// Returns the lines that say how to try out the cluster.
fn node_lines(nodes: &[NodeProcess], dir: &Path) -> String {
    let listed: Vec<String> = nodes
        .iter()
        .map(|node| format!("  {:<10} {}, process {}\n", node.id, node.origin, node.process_id()))
        .collect();
    let dir = dir.display();
    format!(
        "Each node answers all requests: write on one and read on another.\n\n{listed}\n\
         Kill a node, for example with kill -9, and the others take its databases over within {} seconds.\n\
         Logs and configurations of the nodes are in {dir}; `branchyard node list --config '{dir}/node-1.toml'` lists them.\n",
        LEASE_SECONDS + 2,
        listed = listed.concat(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(dir: &Path, listen: &str) -> DemoCluster {
        let metadata_url = "postgres://branchyard@127.0.0.1/demo".to_owned();
        let listen = listen.parse().unwrap();
        DemoCluster { dir: dir.to_owned(), metadata_url, listen, nodes: 3, over_tls: false }
    }

    #[test]
    fn nodes_share_all_but_their_ids_folders_and_ports() {
        let dir = tempfile::tempdir().unwrap();
        let (configs, authority) = cluster(dir.path(), "127.0.0.1:8080").configs().unwrap();
        let id = configs[0].master_key().unwrap().unwrap().id();
        assert_eq!(authority, None);
        let listens: Vec<&str> = configs.iter().map(|config| config.listen.as_str()).collect();
        assert_eq!(listens, ["127.0.0.1:8080", "127.0.0.1:8081", "127.0.0.1:8082"]);
        assert_eq!(configs[2].node_id.as_deref(), Some("node-3"));
        let same = |config: &Config| Config {
            node_id: None,
            data_dir: PathBuf::new(),
            listen: String::new(),
            ..config.clone()
        };
        assert!(configs.iter().all(|config| same(config) == same(&configs[0])));
        let (again, _) = cluster(dir.path(), "[::1]:0").configs().unwrap();
        assert_eq!(again[1].listen, "[::1]:0");
        assert_eq!(again[0].master_key().unwrap().unwrap().id(), id, "the key stays");
    }

    #[test]
    fn ports_end() {
        let dir = tempfile::tempdir().unwrap();
        let refused = cluster(dir.path(), "127.0.0.1:65534").configs().unwrap_err();
        assert!(refused.to_string().contains("65535"), "{refused}");
    }
}
