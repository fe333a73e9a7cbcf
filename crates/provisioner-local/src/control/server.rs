//! The server side of the control channel, on plain threads.

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use branchyard_auth::HashedToken;
use branchyard_deployments::ports::{Authorizer, ProvisionError};
use branchyard_deployments::values::InstanceId;
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use parking_lot::Mutex;

use super::{
    CallerOutcome, ControlReply, ControlRequest, ControlSide, FromProcess, FromServer, Hello, LONGEST_LINE, Proof,
    Welcome, proof, proves, to_line,
};
use crate::folder::{InstanceFolder, RUN, SOCKET};
use crate::spec::Secret;

const GREETING: Duration = Duration::from_secs(5);
/// Maximum number of caller checks waiting for the store.
const WAITING: usize = 4096;

/// A message that a process sends without being asked.
pub(crate) enum ChildNotice {
    Ready,
    VolumeFull(bool),
    /// The channel closed.
    Gone,
}

type PendingCalls = Mutex<HashMap<u64, mpsc::Sender<ControlReply>>>;

/// An open channel.
pub(crate) struct Channel {
    socket: UnixStream,
    writer: Mutex<UnixStream>,
    asked: PendingCalls,
    next: AtomicU64,
    pub(crate) process: u32,
    pub(crate) port: u16,
    pub(crate) version: String,
}

/// The authority that checks the callers of an instance.
pub(crate) struct Checks {
    pub(crate) authorizer: Arc<dyn Authorizer>,
    pub(crate) instance: InstanceId,
}

impl Channel {
    /// Connects to the process of an instance and verifies its identity. Messages that the process sends without being
    /// asked go to the callback.
    pub(crate) fn open(
        folder: &InstanceFolder,
        secret: &Secret,
        checks: Checks,
        on_notice: impl Fn(ChildNotice) + Send + 'static,
    ) -> io::Result<Arc<Self>> {
        let foreign = || io::Error::new(io::ErrorKind::PermissionDenied, "the process does not prove itself");
        let key = secret.bytes().ok_or_else(foreign)?;
        let mut socket = folder.open()?.sub(RUN)?.connect(SOCKET)?;
        socket.set_read_timeout(Some(GREETING))?;
        let nonce = HEXLOWER.encode(&Secret::fresh().bytes().ok_or_else(foreign)?);
        socket.write_all(&to_line(&Hello { nonce: nonce.clone() }))?;
        let mut reader = BufReader::new(socket.try_clone()?);
        let welcome: Welcome = serde_json::from_slice(&line(&mut reader)?).map_err(io::Error::other)?;
        let is_ours = proves(&key, ControlSide::Process, &nonce, &welcome.proof);
        if !is_ours || welcome.instance != checks.instance.to_string() {
            return Err(foreign());
        }
        socket.write_all(&to_line(&Proof { proof: proof(&key, ControlSide::Server, &welcome.nonce) }))?;
        socket.set_read_timeout(None)?;
        let channel = Arc::new(Self {
            writer: Mutex::new(socket.try_clone()?),
            socket,
            asked: Mutex::default(),
            next: AtomicU64::new(0),
            process: welcome.process,
            port: welcome.port,
            version: welcome.version,
        });
        // Caller checks wait for the store, and pings must not wait: each has a thread of its own.
        let (to_check, checking) = mpsc::sync_channel(WAITING);
        let on = Arc::clone(&channel);
        thread::Builder::new().name("deployment-checks".into()).spawn(move || on.check(&checks, &checking))?;
        let on = Arc::clone(&channel);
        thread::Builder::new()
            .name("deployment-control".into())
            .spawn(move || on.listen(&mut reader, &to_check, &on_notice))?;
        Ok(channel)
    }

    fn listen(
        &self,
        reader: &mut BufReader<UnixStream>,
        to_check: &mpsc::SyncSender<ProofCheck>,
        on_notice: &impl Fn(ChildNotice),
    ) {
        while let Ok(line) = line(reader) {
            match serde_json::from_slice(&line) {
                Ok(FromProcess::Done { id, answer }) => {
                    let asked = self.asked.lock().remove(&id);
                    if let Some(asked) = asked {
                        // The caller of the request may have stopped waiting.
                        let _ = asked.send(answer);
                    }
                }
                Ok(FromProcess::Verify { id, token, address }) => {
                    if to_check.try_send(ProofCheck { id, token, address }).is_err() {
                        self.say(&FromServer::Verified { id, outcome: CallerOutcome::Unknown });
                    }
                }
                Ok(FromProcess::Ready) => on_notice(ChildNotice::Ready),
                Ok(FromProcess::VolumeFull { full }) => on_notice(ChildNotice::VolumeFull(full)),
                Err(error) => {
                    tracing::error!(%error, "invalid message from a deployment on the control socket");
                    break;
                }
            }
        }
        self.close();
        self.asked.lock().clear();
        on_notice(ChildNotice::Gone);
    }

    fn check(&self, checks: &Checks, checking: &mpsc::Receiver<ProofCheck>) {
        for check in checking {
            let token = HEXLOWER_PERMISSIVE.decode(check.token.as_bytes()).ok();
            let token = token.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
            let address: Option<IpAddr> = check.address.and_then(|address| address.parse().ok());
            let outcome = match token {
                None => CallerOutcome::BadToken,
                Some(token) => {
                    let token = HashedToken::from_bytes(token);
                    match checks.authorizer.authorize(&token, checks.instance, address) {
                        Ok(authorized) => authorized.into(),
                        Err(error) => {
                            tracing::error!(%error, "cannot authorize a caller of a deployment");
                            CallerOutcome::Unknown
                        }
                    }
                }
            };
            self.say(&FromServer::Verified { id: check.id, outcome });
        }
    }

    fn say(&self, message: &FromServer) -> bool {
        let mut writer = self.writer.lock();
        writer.write_all(&to_line(message)).is_ok()
    }

    /// Sends a request and waits for the reply for at most `patience`.
    ///
    /// # Errors
    /// [`ProvisionError::Gone`] if there is no reply in time.
    pub(crate) fn ask(&self, ask: ControlRequest, patience: Duration) -> Result<ControlReply, ProvisionError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = mpsc::channel();
        self.asked.lock().insert(id, answer);
        let got =
            if self.say(&FromServer::ControlRequest { id, ask }) { answered.recv_timeout(patience).ok() } else { None };
        self.asked.lock().remove(&id);
        got.ok_or(ProvisionError::Gone)
    }

    /// Closes the channel.
    pub(crate) fn close(&self) {
        // Fails only if the other side has closed the channel already.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }
}

struct ProofCheck {
    id: u64,
    token: String,
    address: Option<String>,
}

fn line(reader: &mut BufReader<UnixStream>) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let most = u64::try_from(LONGEST_LINE).unwrap_or(u64::MAX);
    reader.by_ref().take(most).read_until(b'\n', &mut line)?;
    if line.ends_with(b"\n") { Ok(line) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}
