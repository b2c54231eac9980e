//! A log, drained in part, and a database's log, kept as they were written: every later version must read them. In
//! version 2 the database's log has an identity and generations.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ferrite_pool::layout::PAGE;
use ferrite_pool::{NewTag, Role, SpaceNeed, Stream, Zone, seal};

use super::*;
use crate::segment::SegmentFolder;

/// The pool and the segments, each by its name in the file.
type Parts = BTreeMap<String, Vec<u8>>;

const POOL: &str = "pool";
const DATABASE: &str = "/srv/golden.db";

const VERSIONS: [u32; 2] = [1, 2];
const LOG: u64 = 0x1234_5678_9abc_def0;

fn path(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../testdata/wal-v{version}.lines"))
}

/// Encodes the nonzero lines of 64 bytes of each part, each with its place.
fn encode(parts: &Parts) -> String {
    let mut text =
        "# A log and its segments, and a database's log, of version 2: the lines that are not zeros.\n".to_owned();
    for (name, bytes) in parts {
        writeln!(text, "{name}: {}", bytes.len()).unwrap();
        for (number, line) in bytes.chunks(64).enumerate().filter(|(_, line)| line.iter().any(|byte| *byte != 0)) {
            write!(text, "{:x} ", number * 64).unwrap();
            line.iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
            text.push('\n');
        }
    }
    text
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

/// Creates records in two files and in the ring, the first two truncated; stopped without closing.
fn make() -> Parts {
    let (memory, folder) = (new_pool(Model::MAPPED), LyingFolder::default());
    let wal = create(&memory, &folder);
    let at: Vec<LogPosition> =
        (0..60).map(|number| wal.append(&payload(number), Durability::Strict).unwrap()).collect();
    wal.drain().unwrap();
    (60..70).for_each(|number| _ = wal.append(&payload(number), Durability::Strict).unwrap());
    wal.truncate(at[2]).unwrap();
    drop(wal);
    make_database(&memory);
    let mut parts = Parts::from([(POOL.to_owned(), memory.snapshot())]);
    for segment in folder.names() {
        let mut bytes = vec![0; 1 << 20];
        let read = folder.clone().read(segment, 0, &mut bytes).unwrap();
        bytes.truncate(read);
        parts.insert(format!("segment {segment}"), bytes);
    }
    parts
}

/// Creates a marked database with 100 bytes in its write-ahead log and an empty journal, as docs/format.md describes.
fn make_database(memory: &Arc<LyingMemory>) {
    let pool = open_pool(memory).unwrap();
    let need = |role, bytes| SpaceNeed { role, zone: Zone::Normal, bytes };
    let needs = [need(Role::MAP, PAGE), need(Role(2), 2 * PAGE), need(Role(3), PAGE)];
    let mut attributes = [0; 64];
    attributes[..8].copy_from_slice(&0x801_u64.to_le_bytes());
    attributes[8..16].copy_from_slice(&77_u64.to_le_bytes());
    attributes[24..32].copy_from_slice(&2_u64.to_le_bytes());
    attributes[32..40].copy_from_slice(&LOG.to_le_bytes());
    let new = NewTag { name: DATABASE, kind: TagKind::DATABASE, size: 0, attributes, needs: &needs };
    let tag = pool.create_tag(&new, |_| Ok(())).unwrap();
    let place = |role| Stream::new(&tag.extents, role).locate(0).unwrap().at;
    memory.store(place(Role(2)), &[0x5A; 100], Scheme::Nt);
    let [current, previous] = GENERATIONS;
    for (at, number) in [(0, 4 << 16 | 1 << 16 | 2 << 8 | 2), (64, 101), (128, 1), (256, current), (320, previous)] {
        memory.store_word(place(Role::MAP) + at, seal(tag.generation as u32, number));
    }
    memory.barrier().unwrap();
}

/// Reads the kept file. `FERRITE_GOLDEN=write cargo test -p ferrite-wal golden` writes it again, which only a new
/// format version may require.
fn kept(version: u32) -> Parts {
    static WRITTEN: OnceLock<()> = OnceLock::new();
    WRITTEN.get_or_init(|| {
        if std::env::var("FERRITE_GOLDEN").is_ok_and(|value| value == "write") {
            std::fs::write(path(2), encode(&make())).unwrap();
        }
    });
    let path = path(version);
    decode(&std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

#[test]
fn logs_of_every_version_are_read_and_go_on() {
    VERSIONS.into_iter().for_each(goes_on);
}

fn goes_on(version: u32) {
    let (mut parts, mut folder) = (kept(version), LyingFolder::default());
    let memory = Arc::new(LyingMemory::from_image(&parts.remove(POOL).expect("a pool"), Model::MAPPED));
    for (name, bytes) in &parts {
        let number = name.strip_prefix("segment ").and_then(|number| number.parse().ok()).expect("a segment");
        folder.write(number, 0, bytes).unwrap();
        folder.persist_segment(number).unwrap();
    }
    assert!(parts.len() > 1, "{} segments", parts.len());
    let wal = open(&memory, &folder).unwrap();
    let standing = wal.standing();
    assert!(standing.start < standing.head && standing.head < standing.durable, "{standing:?}");
    runs(&numbers(&wal).unwrap(), 2, 70).unwrap();
    wal.append(&payload(70), Durability::Strict).unwrap();
    wal.drain().unwrap();
    runs(&numbers(&wal).unwrap(), 2, 71).unwrap();
}

/// The generations of the log in version 2: the third, and the one before.
const GENERATIONS: [u64; 2] = [3 << 16 | 7, 2 << 16 | 9];
