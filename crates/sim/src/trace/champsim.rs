//! ChampSim's binary traces: for each instruction a record
//!
//! ```text
//!  0  u64       address
//!  8  u8 x 2    whether it is a branch, and was taken
//! 10  u8 x 6    registers: two written, four read
//! 16  u64 x 2   addresses written, 0 for none
//! 32  u64 x 4   addresses read, 0 for none
//! ```

use super::record_chunks::RecordChunks;
use super::{AccessKind, AccessReader, MemoryAccess};
use crate::{Error, Result, TraceInput};

/// Bytes of a record.
pub const RECORD: usize = 64;

/// Bytes of an access: the trace does not say how many bytes an instruction has or moves.
const BYTES: u32 = 1;

/// A reader of a trace's records.
pub struct ChampsimReader(RecordChunks);

impl ChampsimReader {
    /// Reads `input` from its beginning.
    pub fn new(input: TraceInput) -> Self {
        Self(RecordChunks::of(input, RECORD))
    }
}

impl AccessReader for ChampsimReader {
    fn read(&mut self, into: &mut Vec<MemoryAccess>) -> Result<bool> {
        let more = self.0.next()?;
        for (record, number) in self.0.bytes.chunks_exact(RECORD).zip(self.0.before + 1..) {
            decode(record, into).map_err(|why| Error::malformed(&self.0.input.path, number, why))?;
        }
        Ok(more)
    }
}

/// Appends the accesses of a record to `into`.
///
/// # Errors
/// The reason why the record is malformed.
pub fn decode(record: &[u8], into: &mut Vec<MemoryAccess>) -> std::result::Result<(), String> {
    if record[8] > 1 || record[9] > 1 {
        return Err(format!("a branch flag is 0 or 1, not {} and {}", record[8], record[9]));
    }
    let mut words = record.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
    let counter = words.next().unwrap_or_default();
    into.push(MemoryAccess::new(AccessKind::Fetch, counter, BYTES));
    let addresses: Vec<u64> = words.skip(1).collect();
    let access = |kind, address: &u64| MemoryAccess::new(kind, *address, BYTES).by(counter);
    let used = |of: &[u64], kind| of.iter().filter(|at| **at != 0).map(|at| access(kind, at)).collect();
    let (reads, writes): (Vec<_>, Vec<_>) =
        (used(&addresses[2..6], AccessKind::Read), used(&addresses[..2], AccessKind::Write));
    into.extend(reads.into_iter().chain(writes));
    Ok(())
}
