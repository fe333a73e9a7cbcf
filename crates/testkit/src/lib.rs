//! A whole Branchyard server under test: real stores in a temporary folder, a real socket on a free port, and actors that send
//! HTTP requests. For `dev-dependencies` only: it panics where a test should stop.
//!
//! ```no_run
//! let server = branchyard_testkit::Server::start();
//! let ada = server.user("ada");
//! ada.database("rivers");
//! let answer = ada.get("/databases/ada/rivers");
//! assert_eq!(answer.status, 200);
//! ```
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test stops where its set-up fails")]

mod actor;
mod answer;
mod callback_listener;
mod folder;
mod mutator;
mod oauth_client;
mod page_session;
#[cfg(target_os = "linux")]
mod proc;
mod process;
mod raw;
mod receiver;
mod server;
mod stopwatch;
mod tcp_proxy;
mod upload;

pub use actor::Actor;
pub use answer::TestAnswer;
pub use branchyard_domain_testing::{AMPLE, wait_for, wait_until};
pub use callback_listener::CallbackListener;
pub use folder::files_below;
pub use mutator::Mutator;
pub use oauth_client::{AuthorizationAttempt, OAuthClient, OAuthTokens, form_encoded};
pub use page_session::PageSession;
#[cfg(target_os = "linux")]
pub use proc::{command_line, descendants, open_sockets, process_status, processor_time, reset_peak_memory};
pub use process::{Program, ServerProcess, create_user, ended_within, run_with_input, succeed};
pub use raw::{Outcome, RawAnswer, RawConnection};
pub use receiver::{Manner, Received, Receiver, receive};
pub use server::Server;
pub use stopwatch::Stopwatch;
pub use tcp_proxy::TcpProxy;
