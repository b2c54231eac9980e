//! The tables of docs/format.md, to hold the code to them.

use std::path::Path;

/// A row: where, how many bytes, which field.
pub type FieldRow = (u64, u64, String);

/// The first table behind `heading` that has a column for fields.
pub fn table(heading: &str) -> Vec<FieldRow> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/format.md");
    let page = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let rows = rows_behind(&page, heading);
    assert!(!rows.is_empty(), "docs/format.md has no table behind {heading:?}");
    rows
}

fn rows_behind(page: &str, heading: &str) -> Vec<FieldRow> {
    let lines = page.lines().skip_while(|line| *line != heading).skip(1);
    let lines = lines.skip_while(|line| !line.contains("| field |")).skip(2);
    lines.map_while(|line| line.starts_with('|').then(|| row(line))).collect()
}

fn row(line: &str) -> FieldRow {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    (number(cells[1]), number(cells[2]), cells[3].into())
}

fn number(cell: &str) -> u64 {
    let parsed = match cell.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => cell.parse(),
    };
    parsed.unwrap_or_else(|error| panic!("{cell:?} in docs/format.md: {error}"))
}

/// Bytes of the field that `_of` gives.
pub fn bytes_of<T, F>(_of: impl Fn(&T) -> &F) -> u64 {
    size_of::<F>() as u64
}

/// The rows of a struct: its fields in the order given.
macro_rules! rows {
    ($type:ty { $($field:ident),+ $(,)? }) => {
        vec![$((
            std::mem::offset_of!($type, $field) as u64,
            crate::tests::format_page::bytes_of(|value: &$type| &value.$field),
            stringify!($field).to_string(),
        )),+]
    };
}
pub(crate) use rows;

#[test]
fn a_row_that_differs_is_noticed() {
    let page = "## A\n\n| at | bytes | field | what |\n|---|---|---|---|\n| 0x10 | 4 | crc | of |\n\n## B\n";
    assert_eq!(rows_behind(page, "## A"), [(16, 4, "crc".to_string())]);
    assert!(rows_behind(page, "## B").is_empty());
}
