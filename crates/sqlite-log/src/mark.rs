//! The versions in a database file's header: what they would be, and whether they say so.

/// What a database begins with.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// See the module `database`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The header's write version, byte 18.
    pub write: u8,
    /// Its read version, byte 19.
    pub read: u8,
    /// On disk both say [`Mark::FOREIGN`].
    pub is_on_disk: bool,
    /// A log beside the file counts more, and so does a header with versions of its own.
    pub is_given: bool,
}

impl Mark {
    /// A version that no program reads unless it knows of the pool.
    pub const FOREIGN: u8 = 3;
    /// Where the two versions are in the header.
    pub const AT: u64 = 18;
    /// Where they end.
    pub const END: u64 = Self::AT + 2;

    /// The two versions in what a database file begins with; `None` where that is no header. So it is before the first page
    /// of a new database is written, behind which there may be others, and where a crash tore the first page, which the log
    /// then has.
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
