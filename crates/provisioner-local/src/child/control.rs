//! The process side of the control channel.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use branchyard_deployments::values::ServedName;
use branchyard_domain::values::DatabaseId;
use data_encoding::HEXLOWER;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixListener;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};

use super::callers::CallerQuestion;
use super::databases::NamedDatabase;
use super::state::Child;
use crate::control::{
    CallerOutcome, ControlReply, ControlRequest, ControlSide, FromProcess, FromServer, Hello, LONGEST_LINE, Proof,
    Welcome, proof, proves, to_line,
};
use crate::folder::SOCKET;
use crate::spec::{self, Secret};

/// Maximum number of messages waiting to be written.
const WAITING: usize = 1024;
const GREETING: Duration = Duration::from_secs(5);

/// Listens in the current folder. The process holds the lock of the folder, so an existing socket was left by a process
/// that has ended.
pub(super) fn listen() -> io::Result<UnixListener> {
    match std::fs::remove_file(SOCKET) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    UnixListener::bind(SOCKET)
}

/// Serves one server at a time. A server that proves its identity replaces the connected one.
pub(super) async fn serve(child: Arc<Child>, listener: UnixListener) {
    let mut present: Option<actix_web::rt::task::JoinHandle<()>> = None;
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::error!(%error, "the control socket failed");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (reader, mut writer) = stream.into_split();
        let mut reader = BufReader::new(reader);
        match tokio::time::timeout(GREETING, greet(&child, &mut reader, &mut writer)).await {
            Ok(Some(())) => {}
            Ok(None) | Err(_) => {
                tracing::warn!("a process on the control socket failed to authenticate");
                continue;
            }
        }
        if let Some(present) = present.take() {
            present.abort();
            // Dropping the connection marks the server as away. That has to happen before the next server connects.
            let _ = present.await;
        }
        present = Some(actix_web::rt::spawn(converse(Arc::clone(&child), reader, writer)));
    }
}

async fn line(reader: &mut BufReader<OwnedReadHalf>) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    let most = u64::try_from(LONGEST_LINE).unwrap_or(u64::MAX);
    let read = reader.take(most).read_until(b'\n', &mut line).await.ok()?;
    (read > 0 && line.ends_with(b"\n")).then_some(line)
}

async fn greet(child: &Child, reader: &mut BufReader<OwnedReadHalf>, writer: &mut OwnedWriteHalf) -> Option<()> {
    let secret = child.spec.secret.bytes()?;
    let hello: Hello = serde_json::from_slice(&line(reader).await?).ok()?;
    let nonce = HEXLOWER.encode(&Secret::fresh().bytes()?);
    let welcome = Welcome {
        nonce: nonce.clone(),
        proof: proof(&secret, ControlSide::Process, &hello.nonce),
        instance: child.spec.instance.clone(),
        process: std::process::id(),
        port: child.spec.port,
        version: child.engine.version(),
    };
    writer.write_all(&to_line(&welcome)).await.ok()?;
    let shown: Proof = serde_json::from_slice(&line(reader).await?).ok()?;
    proves(&secret, ControlSide::Server, &nonce, &shown.proof).then_some(())
}

/// The connection to a server. Dropping it marks the server as away.
struct ServerConnection(Arc<Child>);

impl Drop for ServerConnection {
    fn drop(&mut self) {
        self.0.reach(None);
        self.0.callers.disconnect();
    }
}

async fn converse(child: Arc<Child>, mut reader: BufReader<OwnedReadHalf>, mut writer: OwnedWriteHalf) {
    let (messages, mut to_write) = mpsc::channel::<FromProcess>(WAITING);
    let (questions, mut asked) = mpsc::channel::<CallerQuestion>(WAITING);
    child.reach(Some(messages.clone()));
    child.callers.connect(questions);
    let _connected = ServerConnection(Arc::clone(&child));
    if child.is_ready.load(Ordering::Acquire) {
        child.tell(FromProcess::Ready);
    }
    // The server may remember the state of an earlier process.
    if let Some(full) = child.fill.last_told() {
        child.tell(FromProcess::VolumeFull { full });
    }
    let mut waiting: HashMap<u64, oneshot::Sender<CallerOutcome>> = HashMap::new();
    let mut next = 0_u64;
    // A task of its own reads the lines, because `select!` would drop a line that is only partly read.
    let (lines, mut said) = mpsc::channel::<Vec<u8>>(WAITING);
    let read = actix_web::rt::spawn(async move {
        while let Some(line) = line(&mut reader).await {
            if lines.send(line).await.is_err() {
                return;
            }
        }
    });
    loop {
        tokio::select! {
            message = to_write.recv() => {
                let Some(message) = message else { break };
                if writer.write_all(&to_line(&message)).await.is_err() {
                    break;
                }
            }
            question = asked.recv() => {
                let Some(question) = question else { break };
                next += 1;
                waiting.retain(|_, answer| !answer.is_closed());
                waiting.insert(next, question.answer);
                let address = question.address.map(|address| address.to_string());
                let verify = FromProcess::Verify { id: next, token: HEXLOWER.encode(&question.token), address };
                if writer.write_all(&to_line(&verify)).await.is_err() {
                    break;
                }
            }
            line = said.recv() => {
                let Some(line) = line else { break };
                match serde_json::from_slice::<FromServer>(&line) {
                    Ok(FromServer::Verified { id, outcome }) => {
                        if let Some(answer) = waiting.remove(&id) {
                            // The caller of the check may have stopped waiting.
                            let _ = answer.send(outcome);
                        }
                    }
                    Ok(FromServer::ControlRequest { id, ask }) => {
                        let (child, messages) = (Arc::clone(&child), messages.clone());
                        actix_web::rt::spawn(async move {
                            let answer = answer(&child, ask).await;
                            let _ = messages.send(FromProcess::Done { id, answer }).await;
                        });
                    }
                    Err(error) => {
                        tracing::error!(%error, "invalid message from the server on the control socket");
                        break;
                    }
                }
            }
        }
    }
    read.abort();
}

async fn answer(child: &Arc<Child>, ask: ControlRequest) -> ControlReply {
    let refused = |why: String| ControlReply::Refused { why };
    match ask {
        ControlRequest::Ping => ControlReply::Fine,
        ControlRequest::Apply { settings, revision } => {
            child.apply(spec::settings(&settings), revision);
            ControlReply::Fine
        }
        ControlRequest::ForgetCallers => {
            child.callers.forget();
            ControlReply::Fine
        }
        ControlRequest::Sample => {
            let (memory, volume) =
                (super::resources::memory(child.spec.memory_gb), super::resources::volume(child.spec.volume_gb));
            ControlReply::Sample {
                sample: child.counters.sample(
                    &child.usage.read(),
                    child.streams.count(),
                    child.spec.cpus,
                    memory,
                    volume,
                ),
            }
        }
        ControlRequest::Drain => {
            child.drained.notify_one();
            ControlReply::Fine
        }
        ControlRequest::CreateDatabase { operation, name, database, file } => {
            let on = Arc::clone(child);
            let made = actix_web::rt::task::spawn_blocking(move || create(&on, &name, &database, &file)).await;
            tracing::info!(operation, "handled a request to create a database");
            match made {
                Ok(Ok(())) => ControlReply::Fine,
                Ok(Err(why)) => refused(why),
                Err(error) => refused(error.to_string()),
            }
        }
        ControlRequest::DropDatabase { operation, name } => {
            let on = Arc::clone(child);
            let dropped = actix_web::rt::task::spawn_blocking(move || drop_database(&on, &name)).await;
            tracing::info!(operation, "handled a request to drop a database");
            match dropped {
                Ok(Ok(())) => ControlReply::Fine,
                Ok(Err(why)) => refused(why),
                Err(error) => refused(error.to_string()),
            }
        }
    }
}

/// Adopts a file of the folder `incoming` as a database. Succeeds at once if a database with this id exists.
fn create(child: &Child, name: &str, database: &str, file: &str) -> Result<(), String> {
    let say = |error: &dyn std::fmt::Display| error.to_string();
    let name = ServedName::parse(name).map_err(|error| say(&error))?;
    let id = DatabaseId::parse(database).map_err(|error| say(&error))?;
    if child.databases.all().iter().any(|there| there.id == id) {
        return Ok(());
    }
    if child.databases.find(Some(name.as_str())).is_some() {
        return Err(format!("there is a database {name}"));
    }
    // The name is parsed as an id, so the path cannot lead out of the folder.
    let file = DatabaseId::parse(file).map_err(|error| say(&error))?;
    let from = child.folder.path().join("incoming").join(file.to_string());
    child.engine.put_back(id, &from).map_err(|error| say(&error))?;
    child.databases.add(NamedDatabase { name, id }).map_err(|error| say(&error))
}

fn drop_database(child: &Child, name: &str) -> Result<(), String> {
    let name = ServedName::parse(name).map_err(|error| error.to_string())?;
    match child.databases.take_away(&name).map_err(|error| error.to_string())? {
        Some(id) => child.engine.drop_served(id).map_err(|error| error.to_string()),
        None => Ok(()),
    }
}
