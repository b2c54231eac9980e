//! The decoding of a client's messages: pure functions from bytes to values (N5), which the fuzzers call.
//!
//! ```text
//! option   IHAVEOPT:64  option:32  len:32                          data: len bytes
//! GO       name_len:32  name  count:16  kind:16 * count
//! CONTEXT  name_len:32  name  count:32  (query_len:32  query) * count
//! request  25609513:32  flags:16  type:16  cookie:64  offset:64  len:32   payload: len bytes of a WRITE
//! ```

use ferrite_disk::{Access, Zeroing};
use ferrite_memory::Span;

use super::consts::{
    NAME_MAX_BYTES, OPTION_BYTES, OPTION_MAGIC, REQUEST_BYTES, REQUEST_MAGIC, command, command_flag, handshake,
    info_kind,
};

/// The reason why bytes are invalid. The text is for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The magic number is missing: the framing is lost, and the server can only drop the connection.
    #[error("wrong magic number")]
    Magic,
    /// More bytes arrived in the clear before TLS was started.
    #[error("something was said before TLS was started")]
    Early,
    /// The client set flags that the server never offered.
    #[error("unknown client flags")]
    Flags,
    /// The data ends before the announced length, or continues after it.
    #[error("the option's length and its contents disagree")]
    Length,
    /// A name or query is too long or not UTF-8.
    #[error("a name must be UTF-8 of at most 4096 bytes")]
    Name,
}

/// The client's answer to the greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientFlags {
    /// True if the client expects answers to its options.
    pub fixed_newstyle: bool,
    /// True if the client does not want the zeros after EXPORT_NAME.
    pub no_zeroes: bool,
}

/// Decodes the client flags.
///
/// # Errors
/// Returns [`Malformed::Flags`] for unknown flags.
pub fn client_flags(bytes: [u8; 4]) -> Result<ClientFlags, Malformed> {
    let flags = u32::from_be_bytes(bytes);
    if flags & !(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES) != 0 {
        return Err(Malformed::Flags);
    }
    let has = |flag| flags & flag != 0;
    Ok(ClientFlags { fixed_newstyle: has(handshake::FIXED_NEWSTYLE), no_zeroes: has(handshake::NO_ZEROES) })
}

/// The start of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionHeader {
    /// The number of the option.
    pub option: u32,
    /// Number of data bytes that follow.
    pub len: u32,
}

/// Decodes the start of an option.
///
/// # Errors
/// Returns [`Malformed::Magic`] if the magic number is missing.
pub fn option_header(bytes: [u8; OPTION_BYTES]) -> Result<OptionHeader, Malformed> {
    let mut rest = Fields(&bytes);
    if rest.u64()? != OPTION_MAGIC {
        return Err(Malformed::Magic);
    }
    Ok(OptionHeader { option: rest.u32()?, len: rest.u32()? })
}

/// The data of INFO and GO.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice<'a> {
    /// The name of the export; empty for the default one.
    pub name: &'a str,
    /// True if the client asks for the canonical name.
    pub wants_name: bool,
    /// True if the client asks for the description.
    pub wants_description: bool,
    /// True if the client asks for the block sizes, so it will respect them.
    pub wants_block_size: bool,
}

/// Decodes the data of INFO and GO. Unknown kinds of information are not an error.
///
/// # Errors
/// Returns [`Malformed::Length`] or [`Malformed::Name`].
pub fn choice(data: &[u8]) -> Result<Choice<'_>, Malformed> {
    let mut rest = Fields(data);
    let mut choice = Choice { name: rest.name()?, ..Choice::default() };
    for _ in 0..rest.u16()? {
        match rest.u16()? {
            info_kind::NAME => choice.wants_name = true,
            info_kind::DESCRIPTION => choice.wants_description = true,
            info_kind::BLOCK_SIZE => choice.wants_block_size = true,
            _ => {}
        }
    }
    rest.end(choice)
}

/// The data of LIST_META_CONTEXT and SET_META_CONTEXT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contexts<'a> {
    /// The name of the export; empty for the default one.
    pub name: &'a str,
    /// The requested contexts, such as `base:allocation` or `base:`.
    pub queries: Vec<&'a str>,
}

/// Decodes the data of LIST_META_CONTEXT and SET_META_CONTEXT.
///
/// # Errors
/// Returns [`Malformed::Length`] or [`Malformed::Name`].
pub fn contexts(data: &[u8]) -> Result<Contexts<'_>, Malformed> {
    let mut rest = Fields(data);
    let mut contexts = Contexts { name: rest.name()?, queries: Vec::new() };
    for _ in 0..rest.u32()? {
        contexts.queries.push(rest.name()?);
    }
    rest.end(contexts)
}

/// Decodes an export's name in the form of EXPORT_NAME: the whole data.
///
/// # Errors
/// Returns [`Malformed::Name`] if the name is too long or not UTF-8.
pub fn bare_name(data: &[u8]) -> Result<&str, Malformed> {
    if data.len() > NAME_MAX_BYTES {
        return Err(Malformed::Name);
    }
    std::str::from_utf8(data).map_err(|_| Malformed::Name)
}

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// READ
    Read,
    /// WRITE
    Write,
    /// DISC
    Disconnect,
    /// FLUSH
    Flush,
    /// TRIM
    Trim,
    /// CACHE
    Cache,
    /// WRITE_ZEROES
    WriteZeroes,
    /// BLOCK_STATUS
    BlockStatus,
    /// A number that is not in the protocol.
    Unknown(u16),
}

impl Command {
    fn from_number(number: u16) -> Self {
        match number {
            command::READ => Self::Read,
            command::WRITE => Self::Write,
            command::DISC => Self::Disconnect,
            command::FLUSH => Self::Flush,
            command::TRIM => Self::Trim,
            command::CACHE => Self::Cache,
            command::WRITE_ZEROES => Self::WriteZeroes,
            command::BLOCK_STATUS => Self::BlockStatus,
            other => Self::Unknown(other),
        }
    }

    /// Returns the flags that this command allows. FUA is allowed on all commands once it was offered.
    pub const fn flags(self) -> u16 {
        command_flag::FUA
            | match self {
                Self::Read => command_flag::DF,
                Self::WriteZeroes => command_flag::NO_HOLE | command_flag::FAST_ZERO,
                Self::BlockStatus => command_flag::REQ_ONE,
                _ => 0,
            }
    }
}

/// A request, without the payload of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The number that the reply repeats.
    pub cookie: u64,
    /// The operation.
    pub command: Command,
    /// The flags: bits of [`command_flag`], not checked yet.
    pub flags: u16,
    /// The range, not checked yet. At most 2^32 - 1 bytes.
    pub span: Span,
}

impl Request {
    /// Returns the number of bytes that follow the request.
    pub fn payload_bytes(&self) -> usize {
        if self.command == Command::Write { self.span.len as usize } else { 0 }
    }

    /// Returns true if `flag` is set.
    pub const fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Returns the durability that a changing request asks for.
    pub fn access(&self) -> Access {
        if self.has(command_flag::FUA) { Access::Fua } else { Access::Cached }
    }

    /// Returns the options of a WRITE_ZEROES request.
    pub fn zeroing(&self) -> Zeroing {
        let (keep_space, fast) = (self.has(command_flag::NO_HOLE), self.has(command_flag::FAST_ZERO));
        Zeroing { access: self.access(), keep_space, fast }
    }
}

/// Decodes a request.
///
/// # Errors
/// Returns [`Malformed::Magic`] if the magic number is missing.
pub fn request(bytes: [u8; REQUEST_BYTES]) -> Result<Request, Malformed> {
    let mut rest = Fields(&bytes);
    if rest.u32()? != REQUEST_MAGIC {
        return Err(Malformed::Magic);
    }
    let flags = rest.u16()?;
    let command = Command::from_number(rest.u16()?);
    let cookie = rest.u64()?;
    let at = rest.u64()?;
    Ok(Request { cookie, command, flags, span: Span::new(at, u64::from(rest.u32()?)) })
}

/// Big-endian fields, read from the front.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (field, rest) = self.0.split_first_chunk().ok_or(Malformed::Length)?;
        self.0 = rest;
        Ok(*field)
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        self.take().map(u64::from_be_bytes)
    }

    fn name(&mut self) -> Result<&'a str, Malformed> {
        let len = self.u32()? as usize;
        let (name, rest) = self.0.split_at_checked(len).ok_or(Malformed::Length)?;
        self.0 = rest;
        bare_name(name)
    }

    fn end<T>(self, value: T) -> Result<T, Malformed> {
        if self.0.is_empty() { Ok(value) } else { Err(Malformed::Length) }
    }
}

#[cfg(test)]
mod tests;
