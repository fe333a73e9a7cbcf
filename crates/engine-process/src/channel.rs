//! Messages with descriptors over a pair of sockets.
//!
//! A message is its length in four bytes (without these four), its kind in one byte, and its content. Descriptors
//! travel with the first byte of a message.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, send, sendmsg, socketpair,
};

/// Largest message, in bytes: a row may have several values of the maximum size.
pub(crate) const MOST_BYTES: usize = 512 << 20;
/// Maximum number of descriptors of a message.
pub(crate) const MOST_DESCRIPTORS: usize = 4;
const HEADER: usize = 5;
/// Size of an idle buffer, in bytes.
const READ_BYTES: usize = 64 << 10;
/// Buffers larger than this are freed after their message.
const KEPT_BYTES: usize = 256 << 10;

/// Why a message could not be sent or received.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChannelError {
    /// The other side ended.
    #[error("the other process ended")]
    Closed,
    /// The other side broke the protocol.
    #[error("the other process sent a message of {0} bytes")]
    TooLong(usize),
    /// The other side sent descriptors, or more of them than a message may have.
    #[error("the other process sent descriptors that do not belong to a message")]
    Descriptors,
    /// The caller no longer wants to wait.
    #[error("the wait was given up")]
    GivenUp,
    /// The system failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: OwnedFd,
    /// How long a system call of this channel blocks at most.
    interval: Option<Timespec>,
    /// Received bytes, from `start` to `filled`; those before `start` belong to messages that were taken.
    buffer: Vec<u8>,
    start: usize,
    filled: usize,
    takes_descriptors: bool,
    descriptors: Vec<OwnedFd>,
    out: Vec<u8>,
}

/// A message.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u8,
    pub(crate) content: &'a [u8],
}

/// Makes a pair of connected sockets.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}

impl Channel {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            interval: None,
            buffer: Vec::new(),
            start: 0,
            filled: 0,
            takes_descriptors: true,
            descriptors: Vec::new(),
            out: Vec::new(),
        }
    }

    /// Makes a channel whose other side may not send descriptors. The kernel closes those that it sends.
    pub(crate) fn without_descriptors(socket: OwnedFd) -> Self {
        Self { takes_descriptors: false, ..Self::new(socket) }
    }

    /// Limits how long a system call of this channel blocks.
    pub(crate) fn wake_every(&mut self, interval: Duration) -> io::Result<()> {
        self.interval = Some(Timespec::try_from(interval).map_err(io::Error::other)?);
        Ok(set_socket_timeout(&self.socket, Timeout::Send, Some(interval))?)
    }

    /// Appends a message to those that the next [`Self::flush`] sends. `write` appends its content.
    pub(crate) fn queue(&mut self, kind: u8, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), ChannelError> {
        let start = self.out.len();
        self.out.extend_from_slice(&[0, 0, 0, 0, kind]);
        write(&mut self.out);
        let length = self.out.len() - start - 4;
        match u32::try_from(length).ok().filter(|_| length <= MOST_BYTES) {
            Some(bytes) => {
                self.out[start..start + 4].copy_from_slice(&bytes.to_le_bytes());
                Ok(())
            }
            None => {
                self.out.truncate(start);
                Err(ChannelError::TooLong(length))
            }
        }
    }

    /// Sends the queued messages, with descriptors. `wait` is called whenever the other side has read nothing for a
    /// while, or only a part, and returns `false` to give up.
    pub(crate) fn flush(
        &mut self,
        descriptors: &[BorrowedFd<'_>],
        wait: &mut dyn FnMut() -> bool,
    ) -> Result<(), ChannelError> {
        let mut sent = 0;
        let mut descriptors = descriptors;
        while sent < self.out.len() {
            let rest = &self.out[sent..];
            let result = if descriptors.is_empty() {
                send(&self.socket, rest, SendFlags::NOSIGNAL)
            } else {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
                let mut control = SendAncillaryBuffer::new(&mut space);
                if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
                    return Err(io::Error::other("too many descriptors").into());
                }
                sendmsg(&self.socket, &[IoSlice::new(rest)], &mut control, SendFlags::NOSIGNAL)
            };
            match result {
                Ok(bytes) => {
                    sent += bytes;
                    descriptors = &[];
                    if sent < self.out.len() && !wait() {
                        return Err(ChannelError::GivenUp);
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if !wait() {
                        return Err(ChannelError::GivenUp);
                    }
                }
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(ChannelError::Closed),
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
        self.out.clear();
        if self.out.capacity() > KEPT_BYTES {
            self.out = Vec::new();
        }
        Ok(())
    }

    /// Sends as much of the queued messages as the other side takes at once. [`Self::flush`] sends the rest. Never blocks.
    pub(crate) fn flush_now(&mut self) -> Result<(), ChannelError> {
        match send(&self.socket, &self.out, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(bytes) => {
                self.out.drain(..bytes);
                Ok(())
            }
            Err(Errno::INTR | Errno::AGAIN) => Ok(()),
            Err(Errno::PIPE | Errno::CONNRESET) => Err(ChannelError::Closed),
            Err(error) => Err(io::Error::from(error).into()),
        }
    }

    /// Returns `true` if a part of the queued messages was not sent.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.out.is_empty()
    }

    /// Receives what has come, at most [`READ_BYTES`] together with what was received before. Never blocks.
    pub(crate) fn receive_now(&mut self) -> Result<(), ChannelError> {
        self.make_room(READ_BYTES);
        match self.take_from_socket() {
            Err(ChannelError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            received => received,
        }
    }

    /// Returns the kinds of the whole messages that were received and not taken.
    pub(crate) fn received_kinds(&self) -> impl Iterator<Item = u8> {
        let mut rest = &self.buffer[self.start..self.filled];
        std::iter::from_fn(move || {
            let length = u32::from_le_bytes(*rest.first_chunk::<4>()?) as usize;
            let whole = rest.get(4..)?.get(..length)?;
            rest = &rest[4 + length..];
            whole.first().copied()
        })
    }

    /// Receives a message. `wait` is called whenever nothing came for a while, or only a part, and `room` with the length
    /// of the message before it is read; both return `false` to give up.
    pub(crate) fn receive(
        &mut self,
        wait: &mut dyn FnMut() -> bool,
        room: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Message<'_>, ChannelError> {
        if self.start == self.filled {
            (self.start, self.filled) = (0, 0);
            if self.buffer.len() > KEPT_BYTES {
                self.buffer = Vec::new();
            }
        }
        let mut needed = HEADER;
        let mut is_announced = false;
        let mut is_partial = false;
        loop {
            let held = &self.buffer[self.start..self.filled];
            if let Some(length) = held.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes) as usize) {
                if length == 0 || length > MOST_BYTES {
                    return Err(ChannelError::TooLong(length));
                }
                needed = 4 + length;
                if held.len() >= needed {
                    break;
                }
                if !std::mem::replace(&mut is_announced, true) && !room(length) {
                    return Err(ChannelError::GivenUp);
                }
            }
            // Otherwise a message whose bytes come one by one would be waited for without an end.
            if std::mem::replace(&mut is_partial, true) && !wait() {
                return Err(ChannelError::GivenUp);
            }
            self.read(needed, wait)?;
        }
        let start = self.start;
        self.start += needed;
        Ok(Message { kind: self.buffer[start + 4], content: &self.buffer[start + HEADER..self.start] })
    }

    /// Reads more of a message of `needed` bytes.
    fn read(&mut self, needed: usize, wait: &mut dyn FnMut() -> bool) -> Result<(), ChannelError> {
        // Long messages grow the buffer step by step, as their bytes come: their length alone takes no memory.
        let held = self.filled - self.start;
        self.make_room(needed.min(held * 2).max(READ_BYTES));
        loop {
            // The kernel wakes a process that is blocked in `recvmsg` also when the other side has read, but not one that waits
            // for something to read.
            let mut polled = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN)];
            match poll(&mut polled, self.interval.as_ref()) {
                Ok(0) if !wait() => return Err(ChannelError::GivenUp),
                Ok(0) | Err(Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(io::Error::from(error).into()),
            }
            match self.take_from_socket() {
                Err(ChannelError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
                received => return received,
            }
        }
    }

    /// Makes room for `bytes` received bytes that belong to no message taken so far.
    fn make_room(&mut self, bytes: usize) {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.filled, 0);
            (self.start, self.filled) = (0, self.filled - self.start);
        }
        if self.buffer.len() < bytes {
            self.buffer.resize(bytes, 0);
        }
    }

    /// Receives bytes into the room of the buffer. Fails with [`io::ErrorKind::WouldBlock`] if there are none.
    fn take_from_socket(&mut self) -> Result<(), ChannelError> {
        if self.filled == self.buffer.len() {
            return Ok(());
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let room = if self.takes_descriptors { &mut space[..] } else { &mut [] };
        let mut control = RecvAncillaryBuffer::new(room);
        let mut parts = [IoSliceMut::new(&mut self.buffer[self.filled..])];
        match recvmsg(&self.socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT) {
            Ok(got) => {
                for message in control.drain() {
                    if let RecvAncillaryMessage::ScmRights(passed) = message {
                        self.descriptors.extend(passed);
                    }
                }
                if got.flags.contains(ReturnFlags::CTRUNC) {
                    return Err(ChannelError::Descriptors);
                }
                self.filled += got.bytes;
                if got.bytes == 0 { Err(ChannelError::Closed) } else { Ok(()) }
            }
            Err(Errno::INTR | Errno::AGAIN) => Err(io::Error::from(io::ErrorKind::WouldBlock).into()),
            Err(Errno::CONNRESET) => Err(ChannelError::Closed),
            Err(error) => Err(io::Error::from(error).into()),
        }
    }

    /// Returns `true` if bytes were received that belong to no message taken so far.
    pub(crate) fn has_more(&self) -> bool {
        self.start < self.filled
    }

    /// Takes the descriptors that came with the messages so far.
    pub(crate) fn take_descriptors(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.descriptors)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
