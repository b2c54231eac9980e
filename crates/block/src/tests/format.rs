//! The bytes of a disk against docs/format.md.

use std::path::Path;

use ferrite_pool::{Role, Stream};

use crate::DiskShape;

use super::*;

/// Where a field is, how many bytes it has, and its name.
type Row = (usize, usize, String);

/// The first table behind `heading` that has a column for fields.
fn table(heading: &str) -> Vec<Row> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/format.md");
    let page = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines = page.lines().skip_while(|line| *line != heading).skip(1);
    let lines = lines.skip_while(|line| !line.contains("| field |")).skip(2);
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        (cells[1].parse().expect("a place"), cells[2].parse().expect("bytes"), cells[3].into())
    };
    let rows: Vec<Row> = lines.map_while(|line| line.starts_with('|').then(|| row(line))).collect();
    assert!(!rows.is_empty(), "docs/format.md has no table behind {heading:?}");
    rows
}

/// The fields of `bytes` by the table, little-endian, with their names; all bytes are in one of them.
fn fields(rows: &[Row], bytes: &[u8]) -> Vec<(String, u64)> {
    let mut end = 0;
    let fields = rows.iter().map(|(at, len, name)| {
        assert_eq!(*at, end, "{name}");
        end = at + len;
        (name.clone(), bytes[*at..end].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    });
    let fields = fields.collect();
    assert_eq!(end, bytes.len());
    fields
}

#[test]
fn the_attributes_are_as_documented() {
    for (thin, checksum, flags) in [(false, false, 0), (true, false, 1), (false, true, 2), (true, true, 3)] {
        let spec = DiskSpec { size: (1 << 30) - 512, sector_bytes: 512, thin, checksum };
        let shape = DiskShape::of(&spec).expect("possible");
        let names = ["sector_bytes", "flags", "blocks", "spares", "reserved"];
        let expected = [512, flags, 1 << 18, 1 << 14, 0];
        let expected: Vec<(String, u64)> = names.into_iter().map(String::from).zip(expected).collect();
        assert_eq!(fields(&table("## Disk"), &shape.attributes()), expected);
    }
}

#[test]
fn a_map_word_is_as_documented() {
    for way in ways() {
        let memory = fresh(way);
        let disk = open(memory.clone(), way);
        disk.write(BLOCK, &content(8, 1), Access::Fua).expect("written");
        let tag = disk.tag();
        let load = |role, at, len| {
            let mut bytes = vec![0; len];
            memory.load(Stream::new(&tag.extents, role).locate(at).expect("there").at, &mut bytes);
            bytes
        };
        let rows = table("### Map word");
        let word = fields(&rows, &load(Role::MAP, 8, 8));
        assert_eq!((word[0].0.as_str(), word[1].0.as_str()), ("block", "checksum"));
        assert_eq!(load(Role::DATA, (word[0].1 - 1) * BLOCK, BLOCK as usize), content(8, 1));
        let checksum = if way.checksum { crc32fast::hash(&content(8, 1)) } else { 0 };
        assert_eq!(word[1].1, u64::from(checksum));
        assert_eq!(load(Role::MAP, 0, 8), [0; 8], "a block that reads as zeros");
    }
}
