//! A database's log, kept as it was written: what reads it today must read it for ever. `wal` makes the file.
//! In version 2 the log has an identity and generations.

use std::collections::BTreeMap;
use std::path::Path;

use ferrite_pool::layout::PAGE;
use ferrite_pool::{Caller, PidFd, Pool, Stream};

use super::*;

/// The pool and the segments, each by its name in the file.
type Parts = BTreeMap<String, Vec<u8>>;

const POOL: &str = "pool";
const DATABASE: &str = "/srv/golden.db";
const LOG: u64 = 0x1234_5678_9abc_def0;
/// This boot.
const BOOT: [u8; 16] = [2; 16];

/// The generations of the log in version 2: the third, and the one before.
const GENERATIONS: [u64; 2] = [3 << 16 | 7, 2 << 16 | 9];

fn kept(version: u32) -> Parts {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../testdata/wal-v{version}.lines"));
    decode(&fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

fn decode(text: &str) -> Parts {
    let (mut parts, mut name) = (Parts::new(), "");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some((part, bytes)) = line.split_once(": ") {
            parts.insert(part.into(), vec![0; bytes.parse().expect("bytes")]);
            name = part;
            continue;
        }
        let (place, digits) = line.split_once(' ').expect("a place and bytes");
        let place = usize::from_str_radix(place, 16).expect("a place");
        for (index, pair) in digits.as_bytes().chunks(2).enumerate() {
            let byte = u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).expect("a byte");
            parts.get_mut(name).expect("a part")[place + index] = byte;
        }
    }
    parts
}

fn caller() -> Caller {
    let pid = std::process::id();
    Caller { pid, uid: 0, process: PidFd::open(pid).unwrap(), connection: 0 }
}

#[test]
fn a_databases_log_of_every_version_is_listed_and_read() {
    let none = (String::new(), 0, [0; 2]);
    let versions = [(1, none), (2, (format!("{LOG:016x}"), 3, GENERATIONS))];
    for (version, (log, generation, generations)) in versions {
        is_listed(version, DatabaseEntry { log, generation, generations, ..entry() });
    }
}

fn entry() -> DatabaseEntry {
    DatabaseEntry {
        path: DATABASE.into(),
        wal_bytes: 100,
        journal_bytes: 0,
        space_bytes: 4 * PAGE,
        processes: Vec::new(),
        marked: true,
        log: String::new(),
        generation: 0,
        generations: [0; 2],
    }
}

fn is_listed(version: u32, wanted: DatabaseEntry) {
    let memory = Arc::new(LyingMemory::from_image(&kept(version)[POOL], Model::MAPPED));
    let pool = Arc::new(Pool::open(memory.clone(), BOOT).unwrap().0);
    let listed = DatabaseLogs::new(Arc::clone(&pool), BOOT).answer(&caller(), DatabaseRequest::List).unwrap().value;
    let found: Vec<DatabaseEntry> = serde_json::from_value(listed).unwrap();
    assert_eq!(found, [wanted]);
    let tag = pool.tag(DATABASE).unwrap();
    let mut bytes = [0; 101];
    memory.load(Stream::new(&tag.extents, Role(2)).locate(0).unwrap().at, &mut bytes);
    assert_eq!((&bytes[..100], bytes[100]), (&[0x5A; 100][..], 0));
    assert_eq!(tag.attributes[..16], [0x801_u64.to_le_bytes(), 77_u64.to_le_bytes()].concat());
}
