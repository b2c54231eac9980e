//! A file that a log was drained to, as found and with valid checksums.

use std::io;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use ferrite_memory::{MapOptions, Mapped, Memory};
use ferrite_pool::Format;
use ferrite_pool::LogPosition;
use ferrite_pool::Pool;
use ferrite_pool::TagLog;
use ferrite_pool::checked_record;
use ferrite_pool::layout::{CHUNK, POOL_BYTES_MIN};
use ferrite_wal::Durability;
use ferrite_wal::SegmentFolder;
use ferrite_wal::Wal;
use ferrite_wal::WalSpec;

/// The offset of the lines in the file, and of the records' salt in the header: see docs/format.md.
const LINES_AT: usize = 4096;
const SALT_AT: usize = 48;
const HEADER: usize = 64;

/// The one file of a folder in memory.
#[derive(Clone, Default)]
struct One(Arc<Mutex<Vec<u8>>>);

impl One {
    fn bytes(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SegmentFolder for One {
    fn list(&mut self) -> io::Result<Vec<u64>> {
        Ok(vec![0])
    }

    fn write(&mut self, _: u64, at: u64, bytes: &[u8]) -> io::Result<()> {
        let (mut file, end) = (self.bytes(), at as usize + bytes.len());
        let len = file.len().max(end);
        file.resize(len, 0);
        file[at as usize..end].copy_from_slice(bytes);
        Ok(())
    }

    fn persist_segment(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn read(&mut self, _: u64, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let file = self.bytes();
        let rest = file.get(at as usize..).unwrap_or_default();
        let read = rest.len().min(into.len());
        into[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn remove(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn location(&self) -> String {
        "memory".into()
    }
}

/// A log whose every record is in its file.
struct Field {
    wal: Arc<Wal>,
    file: One,
    right: Vec<u8>,
    records: Vec<(LogPosition, Vec<u8>)>,
}

static FIELD: LazyLock<Mutex<Field>> = LazyLock::new(|| {
    let memory = Mapped::anonymous(POOL_BYTES_MIN + CHUNK, &MapOptions::default()).expect("memory for a pool");
    let memory: Arc<dyn Memory> = Arc::new(memory);
    Pool::create(&*memory, &Format { uuid: [1; 16], boot_id: [2; 16] }).expect("a pool");
    let (pool, _) = Pool::open(memory, [2; 16]).expect("opens");
    let (file, spec) = (One::default(), WalSpec { capacity_bytes: 16 << 10 });
    let wal = Wal::create(&Arc::new(pool), "log", &spec, Box::new(file.clone())).expect("room");
    for len in [1, 40, 41, 300, 7, 2000] {
        wal.append(&vec![len as u8; len], Durability::Strict).expect("room");
    }
    wal.drain().expect("memory does not fail");
    let records = wal.records().collect::<Result<_, _>>().expect("all verify");
    let right = file.bytes().clone();
    Mutex::new(Field { wal, file, right, records })
});

pub fn target(data: &[u8]) {
    let field = FIELD.lock().unwrap_or_else(PoisonError::into_inner);
    for record in field.read(data.to_vec()) {
        assert!(field.records.contains(&record), "a record that was never appended was believed");
    }
    let repaired = field.repaired(data);
    let (len, mut next) = (repaired.len(), 0);
    for (position, payload) in field.read(repaired) {
        assert_eq!(position.number(), next, "records overlap, or there is a hole between them");
        next += TagLog::lines_for(payload.len());
        assert!(LINES_AT as u64 + next * 64 <= len.next_multiple_of(64) as u64, "bytes behind the end were believed");
    }
}

impl Field {
    /// Returns the records up to the first refused one.
    fn read(&self, bytes: Vec<u8>) -> Vec<(LogPosition, Vec<u8>)> {
        *self.file.bytes() = bytes;
        self.wal.records().map_while(Result::ok).collect()
    }

    /// Returns the data with the right header, and each record with its correct checksum.
    fn repaired(&self, data: &[u8]) -> Vec<u8> {
        let mut bytes = data.to_vec();
        crate::put(&mut bytes, 0, &self.right[..HEADER]);
        let salt = u32::from_le_bytes(self.right[SALT_AT..SALT_AT + 4].try_into().expect("four bytes"));
        let mut at = LINES_AT;
        while let Some((_, payload_bytes, _)) = bytes.get(at..).and_then(checked_record::header) {
            let end = at + checked_record::HEADER + payload_bytes;
            let Some(body) = bytes.get(at + 4..end) else { break };
            let mut hasher = crc32fast::Hasher::new_with_initial(salt);
            hasher.update(body);
            crate::put(&mut bytes, at, &hasher.finalize().to_le_bytes());
            at += checked_record::footprint(payload_bytes);
        }
        bytes
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    vec![FIELD.lock().unwrap_or_else(PoisonError::into_inner).right.clone()]
}

#[cfg(test)]
mod tests;
