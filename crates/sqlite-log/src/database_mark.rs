//! The versions in the header of a database file: its own versions, and whether the header shows them.

/// The first bytes of a database file.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// The mark of a log: the word `mark` of the crate's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseMark {
    /// The own write version of the database, byte 18 of its header.
    pub write: u8,
    /// The own read version of the database, byte 19 of its header.
    pub read: u8,
    /// True if both versions on disk are [`DatabaseMark::FOREIGN`] (MARKED).
    pub is_on_disk: bool,
    /// True if a log beside the file, or a header with its own versions, counts more than this log (GIVEN).
    pub is_given: bool,
}

impl DatabaseMark {
    /// A version that no program reads unless it knows of the pool.
    pub const FOREIGN: u8 = 3;
    /// Offset of the two versions in the header.
    pub const AT: u64 = 18;
    /// Offset of the byte after the two versions.
    pub const END: u64 = Self::AT + 2;

    /// Returns the two versions in the first bytes of a database file, or `None` if they are not a header. A file has no header
    /// before the first page of a new database is written, perhaps after other pages, and after a crash that tore the first
    /// page; then the log has the page.
    pub fn of_header(head: &[u8; Self::END as usize]) -> Option<[u8; 2]> {
        let [.., write, read] = *head;
        let is_header = head.starts_with(MAGIC) && [write, read].iter().all(|it| (1..=Self::FOREIGN).contains(it));
        is_header.then_some([write, read])
    }

    pub(super) fn from_number(number: u64) -> Self {
        let [write, read, flags, ..] = number.to_le_bytes();
        Self { write, read, is_on_disk: flags & 1 != 0, is_given: flags & 2 != 0 }
    }

    pub(super) fn number(self) -> u64 {
        let flags = 4 | u8::from(self.is_on_disk) | u8::from(self.is_given) << 1;
        u64::from_le_bytes([self.write, self.read, flags, 0, 0, 0, 0, 0])
    }
}
