//! The little of MySQL's protocol that statements without parameters need: the handshake of a user without a password, and
//! `COM_QUERY` with its text results (MySQL's documentation, "Client/Server Protocol").

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

/// Capabilities: long passwords, a database at connect, protocol 4.1, secure connection, plugin authentication.
const CAPABILITIES: u32 = 0x1 | 0x8 | 0x200 | 0x8000 | 0x8_0000;
const COM_QUERY: u8 = 3;
const MOST_PACKET: u32 = 16 << 20;
const UTF8: u8 = 33;

/// A connection.
pub(super) struct MySql {
    stream: TcpStream,
    packet: Vec<u8>,
}

impl MySql {
    /// Connects as `root` without a password.
    pub(super) fn open(address: SocketAddr, database: &str) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut connection = Self { stream, packet: Vec::new() };
        connection.receive()?;
        let mut login = Vec::new();
        login.extend_from_slice(&CAPABILITIES.to_le_bytes());
        login.extend_from_slice(&MOST_PACKET.to_le_bytes());
        login.push(UTF8);
        login.extend_from_slice(&[0; 23]);
        login.extend_from_slice(b"root\0");
        // The length of the answer to the challenge: without a password there is none.
        login.push(0);
        login.extend_from_slice(database.as_bytes());
        login.push(0);
        login.extend_from_slice(b"mysql_native_password\0");
        connection.send(1, &login)?;
        loop {
            let number = connection.receive()?;
            match connection.packet.first() {
                Some(0) => return Ok(connection),
                // Another method: the answer is empty again.
                Some(0xfe) => connection.send(number + 1, &[])?,
                _ => return Err(connection.refused()),
            }
        }
    }

    /// Runs a statement to its end. Returns whether a row of its result contains `proof`.
    pub(super) fn query(&mut self, statement: &str, proof: &[u8]) -> std::io::Result<bool> {
        let mut packet = vec![COM_QUERY];
        packet.extend_from_slice(statement.as_bytes());
        self.send(0, &packet)?;
        self.receive()?;
        match self.packet.first() {
            Some(0) => return Ok(false),
            Some(0xff) | None => return Err(self.refused()),
            Some(_) => {}
        }
        // The columns, the rows; each part ends with a short packet that begins with 0xfe.
        let (mut found, mut parts) = (false, 0);
        while parts < 2 {
            self.receive()?;
            match self.packet.first() {
                Some(0xfe) if self.packet.len() < 9 => parts += 1,
                Some(0xff) => return Err(self.refused()),
                _ => found |= parts == 1 && memchr::memmem::find(&self.packet, proof).is_some(),
            }
        }
        Ok(found)
    }

    fn refused(&self) -> std::io::Error {
        std::io::Error::other(String::from_utf8_lossy(&self.packet).into_owned())
    }

    fn send(&mut self, number: u8, content: &[u8]) -> std::io::Result<()> {
        let [a, b, c, _] = u32::try_from(content.len()).unwrap_or(u32::MAX).to_le_bytes();
        self.stream.write_all(&[&[a, b, c, number], content].concat())
    }

    /// Receives a packet. Returns its number.
    fn receive(&mut self) -> std::io::Result<u8> {
        let mut head = [0; 4];
        self.stream.read_exact(&mut head)?;
        let length = u32::from_le_bytes([head[0], head[1], head[2], 0]);
        self.packet.resize(usize::try_from(length).unwrap_or(0), 0);
        self.stream.read_exact(&mut self.packet)?;
        Ok(head[3])
    }
}
