//! The bytes of objects compared with docs/format.md.

use std::path::Path;

use ferrite_crash::Model;
use ferrite_memory::Scheme;
use ferrite_pool::{LogPosition, Role, Stream, seal};

use super::support::{LOGGING, hold, logged, new_pool, open_pool};
use crate::object_label::{ObjectForm, ObjectLabel};
use crate::{DirectBytes, Map, ObjectLog, checkpoint, direct_value, object_log, salt};

/// Returns the fields of `bytes` by the first table behind `heading`, little-endian; the last field may be open-ended.
fn fields(heading: &str, bytes: &[u8]) -> Vec<(String, u64)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/format.md");
    let page = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines = page.lines().skip_while(|line| *line != heading).skip(1);
    let rows = lines.skip_while(|line| !line.contains("| field |")).skip(2).take_while(|line| line.starts_with('|'));
    let field = |row: &str| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let (at, len): (usize, usize) = (cells[1].parse().expect("a place"), cells[2].parse().expect("bytes"));
        let len = if len == 0 { bytes.len() - at } else { len };
        (cells[3].to_owned(), bytes[at..at + len].iter().take(8).rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    };
    let fields: Vec<_> = rows.map(field).collect();
    assert!(!fields.is_empty(), "docs/format.md has no table behind {heading:?}");
    fields
}

fn named<const N: usize>(expected: [(&str, u64); N]) -> Vec<(String, u64)> {
    expected.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn word(text: &[u8; 8]) -> u64 {
    u64::from_le_bytes(*text)
}

#[test]
fn a_label_is_as_documented() {
    let spec = ObjectLabel::new(ObjectForm::Direct, "value", 48).unwrap().spec("it", 0);
    let (form, reserved) = (("form", 1), ("reserved", 0));
    let expected = named([form, reserved, ("value_bytes", 48), ("type_name", word(b"value\0\0\0")), ("reserved2", 0)]);
    assert_eq!(fields("### Label", &spec.attributes), expected);
    assert_eq!([ObjectForm::Logged as u16, ObjectForm::Log as u16, spec.kind], [2, 3, 5]);
}

#[test]
fn a_value_is_as_documented() {
    let pool = open_pool(&new_pool(Model::MAPPED));
    let label = direct_value::label("value", 8).unwrap();
    let value = DirectBytes::open(hold(&pool, &label, 0), &label, &[0; 8], Scheme::Nt).unwrap();
    value.set(b"12345678").unwrap();
    value.set(b"abcdefgh").unwrap();
    let tag = pool.tag("it").unwrap();
    let page = Stream::new(&tag.extents, Role::MAP).locate(0).unwrap().at;
    // Creation stored the first value.
    for (slot, sequence, content) in [(0, 2, b"12345678"), (1, 3, b"abcdefgh")] {
        let mut bytes = [0; 64];
        pool.memory().load(page + slot * 64, &mut bytes);
        let mut hasher = crc32fast::Hasher::new_with_initial(salt(&pool.superblock().uuid, tag.generation));
        hasher.update(&bytes[8..]);
        let crc = hasher.finalize().into();
        let expected = named([("crc", crc), ("sequence", sequence), ("value", word(content))]);
        assert_eq!(fields("### Value", &bytes), expected);
    }
}

#[test]
fn an_entry_of_a_log_is_as_documented() {
    let pool = open_pool(&new_pool(Model::MAPPED));
    let log = ObjectLog::open(hold(&pool, &object_log::label().unwrap(), 4096), false).unwrap();
    log.append(b"first").unwrap();
    log.extend(&[b"together", b"together"]).unwrap();
    drop(log);
    let records = ferrite_pool::TagLog::open_within(pool.hold("it").unwrap().into()).unwrap();
    let last = records.records().last().unwrap().unwrap().1;
    let expected = named([("number", 2), ("batch", 1), ("entry", word(b"together"))]);
    assert_eq!(fields("### Structures and logs", &last), expected);
}

#[test]
fn a_checkpoint_is_as_documented() {
    let pool = open_pool(&new_pool(Model::MAPPED));
    let map = Map::new(logged(&pool, LOGGING).unwrap());
    (0..50).for_each(|key| map.put(&[key], &[key; 60]).unwrap());
    map.checkpoint().unwrap();
    let position = map.0.log_end();
    let (tag, uuid) = (pool.tag("it").unwrap(), pool.superblock().uuid);
    let salt = salt(&uuid, tag.generation);
    let place = |role, at| Stream::new(&tag.extents, role).locate(at).unwrap().at;
    assert_eq!(pool.memory().load_word(place(Role::MAP, 64)), seal(salt, 1));
    let mut hasher = crc32fast::Hasher::new_with_initial(salt);
    hasher.update(&1u64.to_le_bytes());
    let mut bytes = vec![0; 64];
    pool.memory().load(place(Role(3), 0), &mut bytes);
    let header = ferrite_pool::checked_record::CheckedRecord::parse(hasher.finalize(), &bytes).unwrap();
    let lines = checkpoint::CheckpointReader::new(pool.memory(), &uuid, &tag).named(position).unwrap().lines;
    let expected = named([("sequence", 1), ("position", position.number()), ("items", 50), ("lines", lines)]);
    assert_eq!((header.sequence, fields("### Checkpoint", &header.payload)), (1, expected));
    assert!(position > LogPosition::from_number(0));
}
