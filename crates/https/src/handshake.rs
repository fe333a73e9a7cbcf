//! The TLS handshake of a connection.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use actix_web::rt::net::TcpStream;
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Deadline for the TLS handshake of a connection, counted from its acceptance.
pub const HANDSHAKE: Duration = Duration::from_secs(10);

/// The answer to a request without TLS.
const PLAIN_REQUEST: &str = "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: 68\r\nconnection: close\r\n\r\n\
    This port speaks TLS only. Use an address that begins with https://\n";

/// Negotiates TLS on a new connection. Returns `None` if the client fails to within [`HANDSHAKE`].
pub(crate) async fn accept(stream: TcpStream, config: Arc<ServerConfig>) -> Option<TlsStream<TcpStream>> {
    match tokio::time::timeout(HANDSHAKE, negotiate(stream, config)).await {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(error)) => {
            tracing::debug!(%error, "a TLS handshake failed");
            None
        }
        Err(_) => {
            tracing::debug!("a TLS handshake took too long");
            None
        }
    }
}

async fn negotiate(mut stream: TcpStream, config: Arc<ServerConfig>) -> io::Result<TlsStream<TcpStream>> {
    let mut first = [0];
    stream.peek(&mut first).await?;
    // TLS begins with byte 22, a request without TLS with the letters of its method.
    if first[0].is_ascii_uppercase() {
        // Bytes that are left unread would reset the connection before the client reads the answer.
        let _ = stream.read(&mut [0; 4_096]).await?;
        stream.write_all(PLAIN_REQUEST.as_bytes()).await?;
        stream.shutdown().await?;
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a request without TLS"));
    }
    TlsAcceptor::from(config).accept(stream).await
}
