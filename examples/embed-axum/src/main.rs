//! Starts the service on `127.0.0.1:3000`, or on the address after `--listen`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use embed_axum::{EngineChoice, Service, routes};

fn main() -> anyhow::Result<ExitCode> {
    #[cfg(target_os = "linux")]
    {
        let arguments: Vec<_> = std::env::args_os().skip(1).collect();
        if arguments.first().is_some_and(|first| first == "sql-worker") {
            // This process is a worker. It runs SQL and nothing below.
            return Ok(branchyard_engine_process::run_command(arguments));
        }
    }
    let (mut folder, mut listen) = (PathBuf::from("embed-axum-data"), "127.0.0.1:3000".to_owned());
    let mut choice = EngineChoice::InProcess;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--data-dir" => folder = arguments.next().context("--data-dir needs a folder")?.into(),
            "--listen" => listen = arguments.next().context("--listen needs an address")?,
            #[cfg(target_os = "linux")]
            "--workers" => choice = EngineChoice::Workers(std::env::current_exe()?),
            other => bail!("unknown argument {other}; there are --data-dir DIR, --listen ADDRESS and --workers"),
        }
    }
    let service = Service::start(&folder, &choice)?;
    if let Some(token) = service.first_token()? {
        println!("token {token}");
    }
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(&listen).await?;
        println!("listening on http://{}", listener.local_addr()?);
        let stopped = async { drop(tokio::signal::ctrl_c().await) };
        axum::serve(listener, routes(service.hub())).with_graceful_shutdown(stopped).await
    })?;
    service.stop();
    Ok(ExitCode::SUCCESS)
}
