//! Brings up the loopback interface of a new network namespace, so that tests of servers work. By one netlink
//! message: the program `ip` may not be installed.

use std::io;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

const RTM_NEWLINK: u16 = 16;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLMSG_ERROR: u16 = 2;
/// `lo` is the first interface of every network namespace.
const LOOPBACK_INDEX: i32 = 1;
const IFF_UP: u32 = 1;
/// `struct nlmsghdr` and `struct ifinfomsg`.
const MESSAGE_BYTES: u32 = 32;

pub(super) fn bring_up() -> io::Result<()> {
    // The protocol 0 is `NETLINK_ROUTE`.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    send(&socket, &message(), SendFlags::empty())?;
    let mut answer = [0_u8; 128];
    let (_, count) = recv(&socket, &mut answer, RecvFlags::empty())?;
    let word = |at: usize| -> Option<[u8; 4]> { answer.get(at..at + 4)?.try_into().ok() };
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    match (kind, word(16).map(i32::from_ne_bytes)) {
        (Some(NLMSG_ERROR), Some(0)) if count >= 20 => Ok(()),
        (Some(NLMSG_ERROR), Some(code)) => Err(io::Error::from_raw_os_error(-code)),
        _ => Err(io::Error::other("unexpected netlink reply of the kernel")),
    }
}

fn message() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(MESSAGE_BYTES as usize);
    bytes.extend(MESSAGE_BYTES.to_ne_bytes());
    bytes.extend(RTM_NEWLINK.to_ne_bytes());
    bytes.extend((NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
    bytes.extend(1_u32.to_ne_bytes()); // The sequence number.
    bytes.extend(0_u32.to_ne_bytes()); // To the kernel.
    bytes.extend([0; 4]); // Any family, padding, any type.
    bytes.extend(LOOPBACK_INDEX.to_ne_bytes());
    bytes.extend(IFF_UP.to_ne_bytes()); // The flags,
    bytes.extend(IFF_UP.to_ne_bytes()); // and which of them change.
    bytes
}
