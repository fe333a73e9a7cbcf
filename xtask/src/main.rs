//! Checks and chores of the workspace: `cargo xtask <command>`.
//!
//! `cargo xtask ci` runs all of CI on a developer's machine; the other commands are its parts. A check collects all findings before it
//! fails, and every finding ends with how to fix it.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks to its user")]

mod bench;
mod cargo_tool;
mod ci;
mod deb;
mod deny;
mod finding;
mod layers;
mod machete;
mod mutants;
mod nightly;
mod openapi;
mod packages;
mod process;
mod python;
mod release;
mod sanitize;
mod sbom;
mod schemathesis;
mod snapshots;
mod soak;
mod test_failures;
mod test_times;
mod tidy;
mod timetable;
mod typos;
mod workspace;

use anyhow::{Result, bail};
use cargo_tool::Missing;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use workspace::Workspace;

const USAGE: &str = "\
usage: cargo xtask <command>

  ci [--install-tools]   every check, as CI runs them; needs a Postgres, see BRANCHYARD_TEST_POSTGRES_URL
                         --install-tools: install cargo-deny and cargo-cyclonedx under target/tools when they are missing
  nightly [--minutes M] [--step NAME]
                         what is slow and rarely fails: advisories, features, packages, sanitizer, fuzz, crash, outage (docs/testing.md);
                         default: 10 minutes, all steps
  layers                 who may use whom, among our crates and of a few foreign ones
  tidy                   the tree's conventions
  openapi [--check]      write the committed OpenAPI documents, or compare them
                         XTASK_BRANCHYARD=<file>: ask this binary instead of building one
  schemathesis [FLAG…]   requests made from the OpenAPI document against the real server; FLAGs go to schemathesis
                         XTASK_BRANCHYARD=<file>, XTASK_SCHEMATHESIS=<file>: use this server, this schemathesis
  crash [--nodes N] [--seed N] [--minutes M]
                         the real server under faults, with an oracle beside it (docs/testing.md); default: seed 1, 10 minutes.
                         --nodes: that many nodes over one Postgres and one store
  outage [--seconds S] [--seed N] [--attack NAME]
                         the release binary under eight callers that try the worst they can, and what others notice of it
                         (docs/testing.md); default: 60 seconds, seed 1,
                         all attacks. XTASK_BRANCHYARD=<file>: attack this binary instead of building one
  load [--seconds S] [--writers N] [--readers N]
                         the release binary with default settings under writers and readers that share one token: none is refused, and
                         the latencies are printed (docs/testing.md); default: 60 seconds, 16 writers, 64 readers.
                         XTASK_BRANCHYARD=<file>: use this binary instead of building one
  protocol [--schedules N] [--seed N]
                         the protocol between nodes under a seeded scheduler, with faults (docs/testing.md); default: 1,000,000
                         schedules from seed 1 on
  mutants protocol       the same without one rule of the protocol after the other: each must be noticed
  fixture --version V    a data folder as this version leaves it, for the test of upgrades (docs/testing.md)
  fuzz [--target T] [--seed N] [--minutes M]
                         inputs of strangers for each parser, or one of them; default: all, seed 1, a minute each
  sanitize [--target T] [--seed N] [--minutes M]
                         the engine's tests and fuzz targets under AddressSanitizer and UndefinedBehaviorSanitizer, C code included
                         (docs/engine.md); default: the tests and all targets, seed 1, a minute each
  bench [--quick] [--out FILE] [TOPIC…] [FLAG…]
                         what the server costs, as ratios to baselines of the same run (docs/performance.md); a table, and
                         target/bench.json. --quick: small and in the dev profile; FLAGs go to the bench, `bench --help` lists them
                         XTASK_DATASETTE=<file>: compare with this Datasette instead of installing one
  deny [--install-tools] licences, bans, sources, advisories (deny.toml)
                         BRANCHYARD_CI_ADVISORIES=required: fail if the advisory database cannot be fetched
  typos                  spelling of the tree (typos.toml)
  machete [--install-tools]
                         dependencies that no code uses
  packages [--install-tools] [--full]
                         what contrib and the Debian package promise: the systemd unit, the Dockerfile's steps, nginx and Caddy, the
                         package installed and started (docs/testing.md); needs root or sudo. --full: an upload of 1 GiB, too
                         XTASK_BRANCHYARD=<file>: use this binary instead of building one
  deb [--install-tools] [--out DIR]
                         the Debian package of a release build; default: target/debian
  release VERSION [--install-tools] [--dry-run]
                         check that the tree is ready, build the artefacts, tag the commit (docs/releasing.md); --dry-run: no tag
                         XTASK_BRANCHYARD=<file>: use this binary in a dry run instead of building one
  sbom [--install-tools] [--out FILE]
                         the software bill of materials of the binary, CycloneDX JSON (docs/security-watch.md); default:
                         target/sbom/branchyard.cdx.json";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match command(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Only the chain of causes is printed. A backtrace would point into xtask, but the fault is in the tree.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn command(args: &[&str]) -> Result<()> {
    match args {
        ["ci"] => ci::run(&Workspace::load()?, Missing::Fail),
        ["ci", "--install-tools"] => ci::run(&Workspace::load()?, Missing::Install),
        ["nightly", flags @ ..] => nightly::run(&Workspace::load()?, flags),
        [test_times::RUN, binary, args @ ..] => test_times::run(binary, args),
        ["layers"] => layers::run(&Workspace::load()?),
        ["tidy"] => tidy::run(&Workspace::load()?),
        ["openapi"] => openapi::write(&Workspace::load()?),
        ["openapi", "--check"] => openapi::check(&Workspace::load()?, None),
        ["schemathesis", more @ ..] => schemathesis::run(&Workspace::load()?, given_binary().as_deref(), more),
        ["crash", flags @ ..] => soak::crash(&Workspace::load()?, flags),
        ["outage", flags @ ..] => soak::outage(&Workspace::load()?, given_binary(), flags),
        ["load", flags @ ..] => soak::load(&Workspace::load()?, given_binary(), flags),
        ["protocol", flags @ ..] => soak::protocol(&Workspace::load()?, flags),
        ["mutants", "protocol"] => mutants::run(&Workspace::load()?),
        ["fixture", flags @ ..] => soak::fixture(&Workspace::load()?, flags),
        ["fuzz", flags @ ..] => soak::fuzz(&Workspace::load()?, flags),
        ["sanitize", flags @ ..] => sanitize::run(&Workspace::load()?, flags),
        ["bench", more @ ..] => bench::run(&Workspace::load()?, more),
        ["deny"] => deny::run(&Workspace::load()?, Missing::Fail),
        ["deny", "--install-tools"] => deny::run(&Workspace::load()?, Missing::Install),
        ["typos"] => typos::run(&Workspace::load()?),
        ["machete", more @ ..] => match installing(more) {
            (missing, []) => machete::run(&Workspace::load()?, missing),
            (_, other) => bail!("unknown arguments `{}` of machete\n\n{USAGE}", other.join(" ")),
        },
        ["packages", more @ ..] => match installing(more) {
            (missing, []) => packages::run(&Workspace::load()?, missing, given_binary(), packages::Extent::Usual),
            (missing, ["--full"]) => {
                packages::run(&Workspace::load()?, missing, given_binary(), packages::Extent::Full)
            }
            (_, other) => bail!("unknown arguments `{}` of packages\n\n{USAGE}", other.join(" ")),
        },
        ["deb", more @ ..] => match installing(more) {
            (missing, []) => deb::run(&Workspace::load()?, missing, None),
            (missing, ["--out", folder]) => deb::run(&Workspace::load()?, missing, Some(Path::new(folder))),
            (_, other) => bail!("unknown arguments `{}` of deb\n\n{USAGE}", other.join(" ")),
        },
        ["release", version, more @ ..] => match installing(more) {
            (missing, []) => release::run(&Workspace::load()?, missing, version, release::Mode::Tag, given_binary()),
            (missing, ["--dry-run"]) => {
                release::run(&Workspace::load()?, missing, version, release::Mode::DryRun, given_binary())
            }
            (_, other) => bail!("unknown arguments `{}` of release\n\n{USAGE}", other.join(" ")),
        },
        ["sbom", more @ ..] => {
            let (missing, more) = installing(more);
            match more {
                [] => sbom::run(&Workspace::load()?, missing, None),
                ["--out", file] => sbom::run(&Workspace::load()?, missing, Some(Path::new(file))),
                other => bail!("unknown arguments `{}` of sbom\n\n{USAGE}", other.join(" ")),
            }
        }
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        [] => bail!("no command given\n\n{USAGE}"),
        other => bail!("unknown command `{}`\n\n{USAGE}", other.join(" ")),
    }
}

/// Returns whether the arguments begin with `--install-tools`, and those behind it.
fn installing<'a, 'b>(args: &'a [&'b str]) -> (Missing, &'a [&'b str]) {
    match args {
        ["--install-tools", more @ ..] => (Missing::Install, more),
        more => (Missing::Fail, more),
    }
}

/// Returns the binary that the caller chose.
fn given_binary() -> Option<PathBuf> {
    std::env::var_os("XTASK_BRANCHYARD").map(PathBuf::from)
}
