//! The `migrate` command.

use anyhow::bail;
use branchyard_domain::ports::Clock as _;

use super::print;
use crate::compose::open_metadata;
use crate::config::Config;
use crate::data_dir::DataDir;
use branchyard_runtime::SystemClock;

pub(super) fn run(config: &Config, check: bool) -> anyhow::Result<()> {
    let store = open_metadata(config, &DataDir::open(&config.data_dir)?)?;
    if check {
        let pending = store.pending()?;
        if !pending.is_empty() {
            bail!("pending migrations: {}; run `branchyard migrate`", pending.join(", "));
        }
        return print("the metadata store is up to date");
    }
    let done = store.migrate(SystemClock::default().now())?;
    if done.is_empty() {
        print("the metadata store is up to date")
    } else {
        print(format!("applied: {}", done.join(", ")))
    }
}
