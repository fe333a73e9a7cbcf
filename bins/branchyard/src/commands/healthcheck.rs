//! The `healthcheck` command.

use std::time::Duration;

use anyhow::{Context as _, bail};

use super::print;

pub(super) fn run(url: &str) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = reqwest::Client::builder().timeout(Duration::from_secs(5)).no_proxy().build()?;
        let answer = client.get(format!("{}/readyz", url.trim_end_matches('/'))).send().await;
        let answer = answer.with_context(|| format!("no answer from {url}"))?;
        if !answer.status().is_success() {
            bail!("{url} is not ready: {} {}", answer.status(), answer.text().await.unwrap_or_default());
        }
        print("ready")
    })
}
