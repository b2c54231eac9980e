//! A minimal generic netlink for the kernel's NBD driver: one message, one answer.
//!
//! ```text
//! nlmsghdr      length u32, family u16, flags u16, sequence u32, port u32
//! genlmsghdr    command u8, version u8, 2 zero bytes
//! attribute...  length u16 (with these 4 bytes), type u16, value, zero bytes up to a multiple of 4
//! ```
//!
//! Unsafe: a socket of a family that the standard library does not know.
#![allow(unsafe_code, reason = "sends and receives on a netlink socket, in a forked child too")]

use super::child::{ChildResult, errno};
use super::child_fd::ChildFd;

const HEAD_BYTES: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLA_F_NESTED: u16 = 0x8000;

/// The netlink family that knows the other families, its command to look one up by name, and the attributes of request
/// and answer.
const CONTROL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

/// Returns the number under which this kernel has the family `name`, or ENOENT if the kernel lacks the family.
pub(super) fn family(name: &str) -> Result<u16, i32> {
    let question = GenlMessage::new(CONTROL, CTRL_CMD_GETFAMILY).text(CTRL_ATTR_FAMILY_NAME, name);
    let number = question.finish().exchange(CTRL_ATTR_FAMILY_ID)?;
    u16::try_from(number).map_err(|_| libc::EPROTO)
}

/// A message under construction.
#[derive(Debug)]
pub(super) struct GenlMessage(Vec<u8>);

impl GenlMessage {
    /// Starts a message with `command` for `family`.
    pub fn new(family: u16, command: u8) -> Self {
        let mut bytes = vec![0; HEAD_BYTES];
        bytes[4..6].copy_from_slice(&family.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
        bytes.extend([command, 1, 0, 0]);
        Self(bytes)
    }

    /// Adds an attribute with a 32-bit value.
    pub fn word(self, kind: u16, value: u32) -> Self {
        self.attribute(kind, &value.to_ne_bytes())
    }

    /// Adds an attribute with a 64-bit value.
    pub fn long(self, kind: u16, value: u64) -> Self {
        self.attribute(kind, &value.to_ne_bytes())
    }

    /// Adds an attribute with a text, which ends with a zero byte.
    pub fn text(self, kind: u16, text: &str) -> Self {
        self.attribute(kind, &[text.as_bytes(), &[0]].concat())
    }

    /// Adds an attribute that contains the attributes that `inside` adds.
    pub fn nested(mut self, kind: u16, inside: impl FnOnce(Self) -> Self) -> Self {
        let start = self.0.len();
        self = inside(self.attribute(kind | NLA_F_NESTED, &[]));
        let length = (self.0.len() - start) as u16;
        self.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self
    }

    fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        self.0.extend(((4 + value.len()) as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Returns the whole message.
    pub fn finish(mut self) -> GenlRequest {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        GenlRequest(self.0)
    }
}

/// A complete message. A forked child may send it too, because sending allocates nothing.
#[derive(Debug)]
pub(super) struct GenlRequest(Vec<u8>);

impl GenlRequest {
    /// Sends the message and waits for the acknowledgement. Returns the value of the answer's attribute `wanted`, or 0
    /// if the answer lacks it.
    pub fn exchange(&self, wanted: u16) -> ChildResult {
        let socket = ChildFd::netlink()?;
        // SAFETY: the bytes are readable and borrowed for the call.
        let sent = unsafe { libc::send(socket.number(), self.0.as_ptr().cast(), self.0.len(), 0) };
        if sent < 0 {
            return Err(errno());
        }
        let (mut answer, mut found) = ([0; 4096], 0);
        loop {
            // SAFETY: the bytes are writable and borrowed for the call.
            let got = unsafe { libc::recv(socket.number(), answer.as_mut_ptr().cast(), answer.len(), 0) };
            let Ok(got) = usize::try_from(got) else { return Err(errno()) };
            match GenlAnswer::first_of(&answer[..got], wanted)? {
                GenlAnswer::Value(value) => found = value,
                GenlAnswer::Done => return Ok(found),
                GenlAnswer::Nothing => {}
            }
        }
    }
}

/// The meaning of one datagram from the kernel.
#[derive(Debug, PartialEq, Eq)]
enum GenlAnswer {
    /// The wanted value.
    Value(i32),
    /// The kernel acknowledged the request.
    Done,
    /// Any other message.
    Nothing,
}

impl GenlAnswer {
    /// Parses the first message of a datagram. The kernel puts one message into a datagram unless the request lists
    /// objects.
    fn first_of(datagram: &[u8], wanted: u16) -> Result<Self, i32> {
        let kind = u16::from_ne_bytes(take(datagram, 4)?);
        if kind == NLMSG_ERROR {
            let error = i32::from_ne_bytes(take(datagram, HEAD_BYTES)?);
            return if error == 0 { Ok(Self::Done) } else { Err(-error) };
        }
        let mut rest = datagram.get(HEAD_BYTES + 4..).unwrap_or_default();
        while let (Ok(length), Ok(kind)) = (take(rest, 0), take(rest, 2)) {
            let (length, kind) = (usize::from(u16::from_ne_bytes(length)), u16::from_ne_bytes(kind));
            match rest.get(4..length) {
                None => break,
                Some(value) if kind == wanted => return Ok(Self::Value(number(value))),
                Some(_) => rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default(),
            }
        }
        Ok(Self::Nothing)
    }
}

fn take<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], i32> {
    bytes.get(at..at + N).and_then(|part| part.try_into().ok()).ok_or(libc::EPROTO)
}

/// Returns a number of up to 4 bytes in the byte order of this machine.
fn number(value: &[u8]) -> i32 {
    match *value {
        [a, b] => i32::from(u16::from_ne_bytes([a, b])),
        [a, b, c, d] => i32::from_ne_bytes([a, b, c, d]),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
