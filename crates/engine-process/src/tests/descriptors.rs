//! Descriptors that a worker sends.

use std::io::{IoSlice, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::{Harness, blamed, deed};
use crate::channel::{Channel, ChannelError, pair};

/// The other end of the sent one is closed once every copy of it is, also one that waits in a socket.
#[test]
fn the_server_keeps_no_descriptor_of_a_worker() {
    let (near, far) = pair().unwrap();
    let (sent, mut watched) = UnixStream::pair().unwrap();
    let mut channel = Channel::without_descriptors(near);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [sent.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
    sendmsg(&far, &[IoSlice::new(&[1, 0, 0, 0, 5])], &mut control, SendFlags::empty()).unwrap();
    drop(sent);
    let received = channel.receive(&mut || true, &mut |_| true).map(|message| message.kind);
    assert!(matches!(received, Err(ChannelError::Descriptors)), "{received:?}");
    assert!(channel.take_descriptors().is_empty());
    assert_eq!(watched.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_worker_that_sends_a_descriptor_is_killed() {
    let harness = Harness::new();
    let db = harness.database(1);
    let text = blamed(harness.read(&db, &deed("descriptor")).unwrap_err());
    assert!(text.contains("broke the process"), "{text}");
    assert_eq!(harness.engine.workers().killed, 1);
    harness.works(&[&db]);
}
