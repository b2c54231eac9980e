//! ChampSim's binary traces: for each instruction
//!
//! ```text
//!  0  u64       where it is
//!  8  u8 x 2    whether it is a branch, and was taken
//! 10  u8 x 6    registers: two written, four read
//! 16  u64 x 2   addresses written, 0 for none
//! 32  u64 x 4   addresses read, 0 for none
//! ```

use std::io::{self, BufRead};

use super::{Access, Kind, Reader};
use crate::input::CHUNK;
use crate::{Error, Input, Result};

/// Bytes of a record.
pub const RECORD: usize = 64;

/// The trace does not say how much an instruction takes or moves.
const BYTES: u32 = 1;

/// Records of a trace.
pub struct Records {
    input: Input,
    done: u64,
    chunk: Vec<u8>,
}

impl Records {
    /// None read yet.
    pub fn new(input: Input) -> Self {
        Self { input, done: 0, chunk: Vec::new() }
    }
}

impl Reader for Records {
    fn read(&mut self, into: &mut Vec<Access>) -> Result<bool> {
        let whole = chunk(&mut self.input, &mut self.chunk, self.done, RECORD)?;
        for record in self.chunk.chunks_exact(RECORD) {
            self.done += 1;
            decode(record, into).map_err(|why| Error::malformed(&self.input.path, self.done, why))?;
        }
        Ok(whole)
    }
}

/// Reads until `into` is full; less only at the end.
fn fill(from: &mut dyn BufRead, into: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < into.len() {
        match from.read(&mut into[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Reads the next records of so many bytes each; whether there may be more.
pub fn chunk(input: &mut Input, into: &mut Vec<u8>, done: u64, record: usize) -> Result<bool> {
    let wanted = CHUNK.next_multiple_of(record);
    into.resize(wanted, 0);
    let filled = fill(&mut *input.bytes, into).map_err(|error| Error::reading(&input.path, done, error))?;
    into.truncate(filled);
    let rest = into.len() % record;
    if rest != 0 {
        let line = done + (into.len() / record) as u64;
        let reason = format!("{rest} bytes are left, and a record has {record}");
        return Err(Error::Truncated { file: input.path.clone(), line, reason });
    }
    Ok(into.len() == wanted)
}

fn decode(record: &[u8], into: &mut Vec<Access>) -> std::result::Result<(), String> {
    if record[8] > 1 || record[9] > 1 {
        return Err(format!("a branch is told by 0 or 1, not by {} and {}", record[8], record[9]));
    }
    let mut words = record.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
    let counter = words.next().unwrap_or_default();
    into.push(Access::new(Kind::Fetch, counter, BYTES));
    let addresses: Vec<u64> = words.skip(1).collect();
    let access = |kind, address: &u64| Access::new(kind, *address, BYTES).by(counter);
    let used = |of: &[u64], kind| of.iter().filter(|at| **at != 0).map(|at| access(kind, at)).collect();
    let (reads, writes): (Vec<_>, Vec<_>) = (used(&addresses[2..6], Kind::Read), used(&addresses[..2], Kind::Write));
    into.extend(reads.into_iter().chain(writes));
    Ok(())
}
