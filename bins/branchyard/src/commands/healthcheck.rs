//! The `healthcheck` command.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::print;

pub(super) fn run(url: &str) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = reqwest::Client::builder().timeout(Duration::from_secs(5)).no_proxy();
        // The certificate of a server names its public host. The request to this machine sends nothing secret.
        let client = client.tls_danger_accept_invalid_certs(is_loopback(url)).build()?;
        let answer = client.get(format!("{}/readyz", url.trim_end_matches('/'))).send().await;
        let answer = answer.with_context(|| format!("no answer from {url}"))?;
        if !answer.status().is_success() {
            bail!("{url} is not ready: {} {}", answer.status(), answer.text().await.unwrap_or_default());
        }
        print("ready")
    })
}

fn is_loopback(url: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(url) else { return false };
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn certificates_are_verified_except_on_this_machine() {
        for own in [
            "https://127.0.0.1:8080",
            "https://127.9.9.9",
            "https://[::1]:8443/",
            "https://localhost",
            "https://LOCALHOST",
        ] {
            assert!(is_loopback(own), "{own}");
        }
        for other in [
            "https://yard.test",
            "https://127.0.0.1.test",
            "https://10.0.0.1",
            "https://localhost.test",
            "https://user@[::2]",
            "text",
        ] {
            assert!(!is_loopback(other), "{other}");
        }
    }
}
