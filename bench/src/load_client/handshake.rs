//! The shortest fixed newstyle handshake: structured replies, then the first export.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use ferrite_nbd::consts::{INIT_MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, handshake, info_kind, option, rep};

use super::broken;

/// Negotiates, and returns the export's size in bytes.
pub fn agree(stream: &mut UnixStream) -> io::Result<u64> {
    let greeting: [u8; 18] = read(stream)?;
    if greeting[..8] != INIT_MAGIC.to_be_bytes() || greeting[8..16] != OPTION_MAGIC.to_be_bytes() {
        return Err(broken("this is not a newstyle server"));
    }
    stream.write_all(&(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES).to_be_bytes())?;
    say(stream, option::STRUCTURED_REPLY, &[])?;
    hear(stream, &mut |_| {})?;
    say(stream, option::GO, &[0; 6])?;
    let mut size = None;
    hear(stream, &mut |data| {
        if let Some(rest) = data.strip_prefix(&info_kind::EXPORT.to_be_bytes()) {
            size = rest.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
        }
    })?;
    size.ok_or_else(|| broken("the export's size is missing"))
}

fn say(stream: &mut UnixStream, number: u32, data: &[u8]) -> io::Result<()> {
    let numbers = (u64::from(number) << 32) | data.len() as u64;
    stream.write_all(&[&OPTION_MAGIC.to_be_bytes(), &numbers.to_be_bytes(), data].concat())
}

/// Calls `on_data` with the data of each reply to an option, until the acknowledgement.
fn hear(stream: &mut UnixStream, on_data: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    loop {
        let head: [u8; 20] = read(stream)?;
        let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if head[..8] != OPTION_REPLY_MAGIC.to_be_bytes() || word(16) > 1 << 16 {
            return Err(broken("an option is not answered"));
        }
        let mut data = vec![0; word(16) as usize];
        stream.read_exact(&mut data)?;
        match word(12) {
            rep::ACK => return Ok(()),
            rep::INFO => on_data(&data),
            refusal => return Err(broken(&format!("option {} is refused ({refusal:#x})", word(8)))),
        }
    }
}

fn read<const N: usize>(stream: &mut UnixStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}
