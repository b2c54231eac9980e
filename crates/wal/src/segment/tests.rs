use super::*;

/// The table of docs/format.md has the names and sizes of the header's fields, in order and without gaps.
#[test]
fn the_header_is_as_documented() {
    let page = include_str!("../../../../docs/format.md");
    let table = page.lines().skip_while(|line| *line != "### Segment").skip_while(|line| !line.contains("| field |"));
    let rows = table.skip(2).map_while(|line| line.strip_prefix('|'));
    let mut end = 0;
    let fields: Vec<(usize, String)> = rows
        .map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            assert_eq!(cells[0].parse(), Ok(end), "{row}");
            end += cells[1].parse::<usize>().unwrap();
            (cells[1].parse().unwrap(), cells[2].into())
        })
        .collect();
    let mut header = SegmentHeader::new_zeroed();
    let expected = [
        (header.magic.len(), "magic"),
        (header.version.as_bytes().len(), "version"),
        (header.crc.as_bytes().len(), "crc"),
        (header.uuid.len(), "uuid"),
        (header.generation.as_bytes().len(), "generation"),
        (header.first.as_bytes().len(), "first"),
        (header.salt.as_bytes().len(), "salt"),
        (header.reserved.len(), "reserved"),
    ];
    assert_eq!(fields, expected.map(|(bytes, name)| (bytes, name.to_owned())));
    header.first = 0x2a.into();
    assert_eq!(header.as_bytes()[40], 0x2a);
    assert_eq!((HEADER_BYTES, end), (4096, 64));
}
