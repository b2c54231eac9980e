//! The words of a database's log in the pool, as found and with valid checksums: listing and checking accept any.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use ferrite_memory::{MapOptions, Mapped, Memory};
use ferrite_pool::check::{TagOwners, check_open};
use ferrite_pool::layout::{CHUNK, PAGE, POOL_BYTES_MIN};
use ferrite_pool::{
    Caller, Format, NUMBER_MAX, NewTag, PidFd, Pool, Role, SpaceNeed, Stream, Tag, TagKind, Zone, seal,
};
use ferrite_sqlite_log::{DatabaseEntry, DatabaseLogs, DatabaseRequest, DatabaseService};

/// Offsets of the words in the MAP page: see docs/format.md.
const WORDS_AT: [u64; 5] = [0, 64, 128, 256, 320];
/// Bytes of the write-ahead log's space; the journal has as many.
const SPACE_BYTES: u64 = 2 * PAGE;

/// A pool with such a log.
struct Field {
    memory: Arc<dyn Memory>,
    pool: Arc<Pool>,
    logs: DatabaseLogs,
    owners: TagOwners,
    caller: Caller,
    tag: Arc<Tag>,
    map_at: u64,
}

static FIELD: LazyLock<Mutex<Field>> = LazyLock::new(|| {
    let memory = Mapped::anonymous(POOL_BYTES_MIN + CHUNK, &MapOptions::default()).expect("memory for a pool");
    let memory: Arc<dyn Memory> = Arc::new(memory);
    Pool::create(&*memory, &Format { uuid: [1; 16], boot_id: [2; 16] }).expect("a pool");
    let pool = Arc::new(Pool::open(Arc::clone(&memory), [2; 16]).expect("opens").0);
    let need = |role, bytes| SpaceNeed { role, zone: Zone::Normal, bytes };
    let needs = [need(Role::MAP, PAGE), need(Role(2), SPACE_BYTES), need(Role(3), SPACE_BYTES)];
    let new = NewTag { name: "/a.db", kind: TagKind::DATABASE, size: 0, attributes: [0; 64], needs: &needs };
    let tag = pool.create_tag(&new, |_| Ok(())).expect("room");
    let map_at = Stream::new(&tag.extents, Role::MAP).locate(0).expect("a page was asked for").at;
    let logs = DatabaseLogs::new(Arc::clone(&pool), [2; 16]);
    let mut owners = TagOwners::default();
    owners.register(Box::new(DatabaseService));
    let pid = std::process::id();
    let caller = Caller { pid, uid: 0, process: PidFd::open(pid).expect("this process"), connection: 0 };
    Mutex::new(Field { memory, pool, logs, owners, caller, tag, map_at })
});

/// Checks five words.
pub fn target(data: &[u8]) {
    let field = FIELD.lock().unwrap_or_else(PoisonError::into_inner);
    let word = |number: usize| {
        let mut bytes = [0; 8];
        let found = data.get(number * 8..).unwrap_or_default();
        let len = found.len().min(8);
        bytes[..len].copy_from_slice(&found[..len]);
        u64::from_le_bytes(bytes)
    };
    let words = [0, 1, 2, 3, 4].map(word);
    field.judge(words);
    field.judge(words.map(|word| seal(field.tag.generation as u32, word & NUMBER_MAX)));
}

impl Field {
    /// Checks that a list without an error fits its space, or that the check reports it.
    fn judge(&self, words: [u64; 5]) {
        for (at, word) in WORDS_AT.into_iter().zip(words) {
            self.memory.store_word(self.map_at + at, word);
        }
        let is_in_order = check_open(&self.pool, &self.owners, &mut |_| ()).findings.is_empty();
        let Ok(entries) = self.list() else { return assert!(!is_in_order, "what cannot be listed was found in order") };
        let [entry] = &entries[..] else { panic!("{} databases", entries.len()) };
        let fits = entry.wal_bytes.max(entry.journal_bytes) <= SPACE_BYTES;
        assert!(fits || !is_in_order, "a log longer than its space was found in order");
    }

    fn list(&self) -> Result<Vec<DatabaseEntry>, String> {
        let listed = self.logs.answer(&self.caller, DatabaseRequest::List).map_err(|error| error.to_string())?;
        Ok(serde_json::from_value(listed.value).expect("a list"))
    }
}

/// A marked database with bytes in both logs, and an empty one.
pub fn seeds() -> Vec<Vec<u8>> {
    let salt = FIELD.lock().unwrap_or_else(PoisonError::into_inner).tag.generation as u32;
    let numbers = [4 << 16 | 1 << 16 | 2 << 8 | 2, 101, SPACE_BYTES + 1, 2 << 16 | 7, 1 << 16 | 9];
    let marked = numbers.map(|number| seal(salt, number).to_le_bytes());
    vec![marked.concat(), vec![0; 40]]
}

#[cfg(test)]
mod tests;
