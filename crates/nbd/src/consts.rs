//! The numbers of the NBD protocol, under its own names.

/// First eight bytes that a server sends.
pub const INIT_MAGIC: u64 = u64::from_be_bytes(*b"NBDMAGIC");
/// Second eight bytes that a newstyle server sends, and the start of every option.
pub const OPTION_MAGIC: u64 = u64::from_be_bytes(*b"IHAVEOPT");
/// Start of every option reply.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Start of every request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Start of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Start of a chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Handshake flags, 16 bits from the server, 32 bits from the client, with the same meaning.
pub mod handshake {
    /// The server answers options.
    pub const FIXED_NEWSTYLE: u32 = 1 << 0;
    /// The server omits the 124 zeros after EXPORT_NAME.
    pub const NO_ZEROES: u32 = 1 << 1;
}

/// Options of the handshake.
pub mod option {
    /// Enter transmission; the protocol has no refusal for this option.
    pub const EXPORT_NAME: u32 = 1;
    /// End the session.
    pub const ABORT: u32 = 2;
    /// Name the exports.
    pub const LIST: u32 = 3;
    /// Continue under TLS.
    pub const STARTTLS: u32 = 5;
    /// Describe an export.
    pub const INFO: u32 = 6;
    /// Describe an export and enter transmission.
    pub const GO: u32 = 7;
    /// Use structured replies.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// Name the metadata contexts of an export.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Choose the metadata contexts of an export.
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Types of option replies.
pub mod rep {
    /// Done.
    pub const ACK: u32 = 1;
    /// An export's name.
    pub const SERVER: u32 = 2;
    /// A piece of information on an export.
    pub const INFO: u32 = 3;
    /// A metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// Unknown option.
    pub const ERR_UNSUP: u32 = (1 << 31) + 1;
    /// Not allowed here.
    pub const ERR_POLICY: u32 = (1 << 31) + 2;
    /// Malformed option.
    pub const ERR_INVALID: u32 = (1 << 31) + 3;
    /// TLS is required first.
    pub const ERR_TLS_REQD: u32 = (1 << 31) + 5;
    /// No such export.
    pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
    /// The server is stopping.
    pub const ERR_SHUTDOWN: u32 = (1 << 31) + 7;
    /// The option is too long.
    pub const ERR_TOO_BIG: u32 = (1 << 31) + 9;
}

/// Kinds of information in INFO and GO.
pub mod info_kind {
    /// Size and transmission flags.
    pub const EXPORT: u16 = 0;
    /// Canonical name.
    pub const NAME: u16 = 1;
    /// Text for people.
    pub const DESCRIPTION: u16 = 2;
    /// Smallest, preferred and largest request.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags of an export.
pub mod transmission {
    /// Always set.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// Writes are refused.
    pub const READ_ONLY: u16 = 1 << 1;
    /// FLUSH is served.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// The FUA flag is served.
    pub const SEND_FUA: u16 = 1 << 3;
    /// TRIM is served.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// WRITE_ZEROES is served.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// The DF flag is served.
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush on one connection covers all of them.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// CACHE is served.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// The FAST_ZERO flag is served.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Request types.
pub mod command {
    /// Read.
    pub const READ: u16 = 0;
    /// Write; the payload follows.
    pub const WRITE: u16 = 1;
    /// Disconnect; no reply.
    pub const DISC: u16 = 2;
    /// Flush.
    pub const FLUSH: u16 = 3;
    /// Trim.
    pub const TRIM: u16 = 4;
    /// Bring into the cache.
    pub const CACHE: u16 = 5;
    /// Write zeroes.
    pub const WRITE_ZEROES: u16 = 6;
    /// Report the states of a range.
    pub const BLOCK_STATUS: u16 = 7;
}

/// Flags of a request.
pub mod command_flag {
    /// Durable when answered.
    pub const FUA: u16 = 1 << 0;
    /// WRITE_ZEROES keeps the space.
    pub const NO_HOLE: u16 = 1 << 1;
    /// READ in one chunk.
    pub const DF: u16 = 1 << 2;
    /// BLOCK_STATUS of one extent.
    pub const REQ_ONE: u16 = 1 << 3;
    /// WRITE_ZEROES fast or not at all.
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Chunks of structured replies.
pub mod chunk {
    /// Flag: the last chunk of this reply.
    pub const DONE: u16 = 1 << 0;
    /// An empty final chunk.
    pub const NONE: u16 = 0;
    /// Bytes read.
    pub const OFFSET_DATA: u16 = 1;
    /// A range that reads as zeros.
    pub const OFFSET_HOLE: u16 = 2;
    /// Extents of a metadata context.
    pub const BLOCK_STATUS: u16 = 5;
    /// The request failed.
    pub const ERROR: u16 = (1 << 15) + 1;
    /// The request failed at an offset.
    pub const ERROR_OFFSET: u16 = (1 << 15) + 2;
}

/// Name of the only metadata context that the server offers.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// The number of the context in replies.
pub const BASE_ALLOCATION_ID: u32 = 1;
/// State of `base:allocation`: no space allocated.
pub const STATE_HOLE: u32 = 1 << 0;
/// State of `base:allocation`: reads as zeros.
pub const STATE_ZERO: u32 = 1 << 1;

/// Bytes of a request without payload.
pub const REQUEST_BYTES: usize = 28;
/// Bytes of a simple reply without data.
pub const SIMPLE_REPLY_BYTES: usize = 16;
/// Bytes of a chunk without payload.
pub const CHUNK_BYTES: usize = 20;
/// Bytes of an option without data.
pub const OPTION_BYTES: usize = 16;
/// Longest name or query that the protocol allows, in bytes.
pub const NAME_MAX_BYTES: usize = 4096;
