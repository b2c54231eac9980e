//! The complete input of an NBD client: the greeting, options, requests, over a real stream to a real session.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use ferrite_disk::{Disk, RamDisk};
use ferrite_nbd::consts::{self, OPTION_MAGIC, REQUEST_MAGIC, command, handshake, option};
use ferrite_nbd::{Exports, Options, Refusal, Server, wire};

const DISK_BYTES: u64 = 64 << 10;

/// The most bytes of an input: more is one long write, which teaches nothing.
const INPUT_MAX_BYTES: usize = 64 << 10;

struct OneDisk(Arc<RamDisk>);

impl Exports for OneDisk {
    fn list(&self) -> Vec<String> {
        vec!["disk0".into()]
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Disk>, Refusal> {
        if name == "disk0" { Ok(self.0.clone()) } else { Err(Refusal::Unknown) }
    }
}

pub fn target(data: &[u8]) {
    decoders(data);
    let _ = converse(&data[..data.len().min(INPUT_MAX_BYTES)]);
}

fn decoders(data: &[u8]) {
    let _ = (wire::choice(data), wire::contexts(data), wire::bare_name(data));
    if let Some(bytes) = data.first_chunk() {
        let _ = wire::client_flags(*bytes);
    }
    if let Some(bytes) = data.first_chunk() {
        let _ = wire::option_header(*bytes);
    }
    if let Some(bytes) = data.first_chunk()
        && let Ok(request) = wire::request(*bytes)
    {
        let _ = request.payload_bytes();
    }
}

/// Runs a session, which must end when its client does, for any input; its answers are dropped. Returns true if the
/// conversation ended in good order.
fn converse(data: &[u8]) -> bool {
    let Ok((mut ours, theirs)) = UnixStream::pair() else { return false };
    let Ok(mut reading) = ours.try_clone() else { return false };
    let timeout = Duration::from_secs(10);
    let options = Options { handshake_timeout: timeout, ..Options::default() };
    let server = Server::new(Arc::new(OneDisk(Arc::new(RamDisk::new(DISK_BYTES)))), options);
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut answer = [0; 4096];
            while reading.read(&mut answer).is_ok_and(|bytes| bytes > 0) {}
        });
        let writer = scope.spawn(move || {
            let _ = ours.write_all(data);
            let _ = ours.shutdown(Shutdown::Write);
        });
        let ended_well = server.serve_stream(theirs).is_ok();
        // Joined, because a thread that is still ending looks like a leak to a sanitizer.
        let _ = (writer.join(), reader.join());
        ended_well
    })
}

/// Returns a client's whole conversation: flags, options, every command, disconnect.
pub fn seeds() -> Vec<Vec<u8>> {
    let flags = (handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES).to_be_bytes().to_vec();
    let name = [&5_u32.to_be_bytes()[..], b"disk0"].concat();
    let queries = [&name[..], &1_u32.to_be_bytes(), &15_u32.to_be_bytes(), consts::BASE_ALLOCATION.as_bytes()].concat();
    let go = [&name[..], &1_u16.to_be_bytes(), &3_u16.to_be_bytes()].concat();
    let options = [
        say(option::LIST, b""),
        say(option::STRUCTURED_REPLY, b""),
        say(option::SET_META_CONTEXT, &queries),
        say(option::INFO, &go),
        say(option::GO, &go),
    ]
    .concat();
    let requests = [
        [ask(command::WRITE, 1), vec![5; 512]].concat(),
        ask(command::READ, 0),
        ask(command::FLUSH, 0),
        ask(command::TRIM, 1),
        ask(command::WRITE_ZEROES, 2),
        ask(command::CACHE, 0),
        ask(command::BLOCK_STATUS, 8),
        ask(command::DISC, 0),
    ]
    .concat();
    let short =
        [flags.clone(), say(option::EXPORT_NAME, b"disk0"), ask(command::READ, 0), ask(command::DISC, 0)].concat();
    let aborted = [flags.clone(), say(option::LIST_META_CONTEXT, &queries), say(option::ABORT, b"")].concat();
    vec![[flags, options, requests].concat(), short, aborted]
}

fn say(option: u32, data: &[u8]) -> Vec<u8> {
    [&OPTION_MAGIC.to_be_bytes()[..], &option.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data].concat()
}

/// Returns a request of the first sector; a flush and a disconnect have no range.
fn ask(command: u16, flags: u16) -> Vec<u8> {
    let len: u32 = if matches!(command, command::FLUSH | command::DISC) { 0 } else { 512 };
    let words = [flags.to_be_bytes(), command.to_be_bytes()].concat();
    let (cookie, offset) = (9_u64.to_be_bytes(), 0_u64.to_be_bytes());
    [&REQUEST_MAGIC.to_be_bytes()[..], &words, &cookie, &offset, &len.to_be_bytes()].concat()
}

#[cfg(test)]
mod tests;
