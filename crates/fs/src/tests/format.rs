//! The bytes of a file system against docs/format.md.

use std::mem::{offset_of, size_of};
use std::path::Path;

use crate::format::append_checksum::{AppendChecksum, AppendChecksums};
use crate::format::inode::{DIRECT, DirectLine, InodeBytes, InodeHead, InodeRest};
use crate::format::layout::{BITMAP, DESCRIPTOR, MapPages, TABLE_CHUNKS};
use crate::format::leaf::name_hash;
use crate::format::shape::FsShape;

/// Where a field is, how many bytes it has, and its name.
type Row = (usize, usize, String);

/// The first table behind `heading` that has a column for fields.
fn table(heading: &str) -> Vec<Row> {
    tables(heading).remove(0)
}

/// The tables with a column for fields behind `heading`, up to the next heading.
fn tables(heading: &str) -> Vec<Vec<Row>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/format.md");
    let page = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let section: Vec<&str> = page.lines().skip_while(|line| *line != heading).skip(1).collect();
    let section: Vec<&str> = section.into_iter().take_while(|line| !line.starts_with('#')).collect();
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        (cells[1].parse().expect("a place"), cells[2].parse().expect("bytes"), cells[3].into())
    };
    let starts = section.iter().enumerate().filter(|(_, line)| line.contains("| field |")).map(|(at, _)| at + 2);
    let tables = starts.map(|at| section[at..].iter().take_while(|line| line.starts_with('|')).map(|line| row(line)));
    let tables: Vec<Vec<Row>> = tables.map(Iterator::collect).collect();
    assert!(!tables.is_empty(), "docs/format.md has no table behind {heading:?}");
    tables
}

/// Rows without a gap, of `bytes` in all.
fn assert_whole(rows: &[Row], bytes: usize) {
    let end = rows.iter().fold(0, |end, (at, len, name)| {
        assert_eq!(*at, end, "{name}");
        end + len
    });
    assert_eq!(end, bytes);
}

macro_rules! rows {
    ($base:expr, $prefix:expr, $type:ty { $($field:ident),+ }) => {
        vec![$((
            $base + offset_of!($type, $field),
            field_bytes(|value: &$type| &value.$field),
            format!("{}{}", $prefix, stringify!($field)),
        )),+]
    };
}

fn field_bytes<T, F>(_of: impl Fn(&T) -> &F) -> usize {
    size_of::<F>()
}

#[test]
fn an_inode_is_as_documented() {
    let mut rows = rows!(
        0,
        "",
        InodeHead { mode, height, flags, links, uid, gid, size, mtime, ctime, atime, generation, orphan, pages }
    );
    rows.push((offset_of!(InodeBytes, roots), 64, "roots".into()));
    rows.extend(rows!(offset_of!(InodeBytes, rest), "", InodeRest { btime, parent, rdev, xattrs, reserved }));
    rows.extend(rows!(DIRECT as usize, "direct_", DirectLine { mtime, ctime, atime, size }));
    rows.push((DIRECT as usize + offset_of!(DirectLine, checksums), 32, "direct_checksums".into()));
    assert_eq!(table("### Inode"), rows);
    assert_whole(&rows, size_of::<InodeBytes>());
}

#[test]
fn the_tables_are_as_documented() {
    let all = tables("## File system");
    let shape = FsShape::new(0x0102, Some(0x0304));
    assert_whole(&all[0], 64);
    let attributes = shape.attributes();
    let field = |index: usize| {
        let (at, len, _) = all[0][index];
        attributes[at..at + len].iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
    };
    assert_eq!([field(0), field(2), field(3)], [2, 0x0102, 0x0304]);
    assert_whole(&all[1], 4096);
    let map = MapPages::new(std::iter::once(ferrite_memory::Span::new(0, (16 + 2) * 4096)));
    let page = map.chunk_word(0);
    assert_eq!((map.orphan(8191) + 8, map.chunk_word(1) - page), (page, 8));
    assert_eq!(map.descriptor(0) - page, all[1][2].0 as u64);
    assert_eq!((map.chunk_word(TABLE_CHUNKS), map.chunks()), (page + 4096, 60));
    let descriptor = table("### Chunk descriptor");
    assert_whole(&descriptor, DESCRIPTOR as usize);
    assert_eq!((descriptor[2].0 as u64, descriptor[2].2.as_str()), (BITMAP, "bitmap"));
}

#[test]
fn a_page_of_names_is_as_documented() {
    let rows = table("### Page of names");
    assert_whole(&rows, 4096);
    assert_eq!(rows[3], (crate::format::leaf::SLOTS_AT as usize, crate::format::leaf::SLOTS * 8, "slots".into()));
    assert_eq!(rows[4].0 as u64, crate::format::leaf::HEAP);
}

#[test]
fn hashes_stay_what_they_are() {
    let found: Vec<u64> =
        [b"a".as_slice(), b"some name", &[0xff; 255]].into_iter().map(|name| name_hash(7, name)).collect();
    assert_eq!(found, HASHES);
}

#[test]
fn proofs_stay_what_they_are() {
    let checksum = AppendChecksum::of(5, 8192, 4096, 77);
    assert_eq!(AppendChecksums::NONE.with(checksum).words()[..2], [0x1000_0000_0000_2000, 0x5484_5b3f_0000_004d]);
}

const HASHES: [u64; 3] = [12_136_365_012_790_029, 9_887_549_922_987_713, 3_635_032_412_580_756];
