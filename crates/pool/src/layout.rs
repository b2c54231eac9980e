//! The layout of a pool.
//!
//! ```text
//! chunk 0   0x000000  superblock slot A           4 KiB
//!           0x001000  superblock slot B           4 KiB
//!           0x002000  retired word                8 bytes: the writes of transactions below it are durable at home
//!           0x003000  member table                4 KiB, 32 slots of 128 bytes
//!           0x004000  grant table                 8 KiB, 64 slots of 128 bytes
//!           0x006000  copy of the retired word    8 bytes
//!           0x010000  first tag page              4 KiB; further ones are chained from it
//!           0x100000  16 lanes                    64 KiB each
//! chunk 1   0x000000  chunk kinds of region 0     1 byte a chunk
//!           0x100000  page bitmaps of region 0    64 bytes a chunk, bit set = in use
//! chunk 2.. data; the first chunk of each further region of 16384 chunks holds that region's two tables
//! ```
//!
//! The place of a table does not depend on the size of the pool, so a pool grows, and is restored into a larger one,
//! without moving anything.

/// Bytes of a page, the unit of the normal zone.
pub const PAGE: u64 = 4 << 10;
/// Bytes of a chunk, which is the unit of a zone and the size of a superpage.
pub const CHUNK: u64 = 2 << 20;
/// Pages in a chunk.
pub const CHUNK_PAGES: u64 = CHUNK / PAGE;
/// Chunks in a region.
pub const REGION_CHUNKS: u64 = 16384;

/// Byte offsets of the two superblock slots.
pub const SUPERBLOCKS: [u64; 2] = [0, PAGE];
/// Byte offsets of the retired word and of its copy, on a page of its own. The writes of every transaction below the
/// word are durable at home.
pub const RETIRED: [u64; 2] = [0x2000, 0x6000];
/// Byte offset of the member table.
pub const MEMBERS: u64 = 0x3000;
/// Slots in the member table.
pub const MEMBER_SLOTS: u64 = 32;
/// Byte offset of the grant table.
pub const GRANTS: u64 = 0x4000;
/// Slots in the grant table.
pub const GRANT_SLOTS: u64 = 64;
/// Bytes of a member or grant slot.
pub const SLOT: u64 = 128;
/// Byte offset of the first page of the tag table.
pub const TAGS: u64 = 0x1_0000;
/// Byte offset of the first lane.
pub const LANES: u64 = 0x10_0000;
/// Number of lanes.
pub const LANE_COUNT: usize = 16;
/// Bytes of a lane.
pub const LANE: u64 = 64 << 10;

/// Chunks that hold the pool's own tables at its start.
pub const FIXED_CHUNKS: u64 = 2;
/// Smallest pool in bytes: the tables and two chunks to use.
pub const POOL_BYTES_MIN: u64 = (FIXED_CHUNKS + 2) * CHUNK;

const BITMAPS: u64 = 0x10_0000;

/// Returns the byte offset of the chunk that holds the tables of `chunk`'s region.
fn table(chunk: u64) -> u64 {
    match chunk / REGION_CHUNKS {
        0 => CHUNK,
        region => region * REGION_CHUNKS * CHUNK,
    }
}

/// Returns the byte offset of the kind of `chunk`.
pub fn kind_at(chunk: u64) -> u64 {
    table(chunk) + chunk % REGION_CHUNKS
}

/// Returns the byte offset of the page bitmap of `chunk`: 64 bytes, one line.
pub fn bitmap_at(chunk: u64) -> u64 {
    table(chunk) + BITMAPS + (chunk % REGION_CHUNKS) * 64
}

/// Returns true if `chunk` holds the pool's own tables.
pub fn is_meta(chunk: u64) -> bool {
    chunk < FIXED_CHUNKS || chunk.is_multiple_of(REGION_CHUNKS)
}

const _: () = assert!(GRANTS == MEMBERS + MEMBER_SLOTS * SLOT);
const _: () = assert!(RETIRED[1] >= GRANTS + GRANT_SLOTS * SLOT && TAGS >= RETIRED[1] + PAGE);
const _: () = assert!(LANES + LANE_COUNT as u64 * LANE == CHUNK);
const _: () = assert!(BITMAPS + REGION_CHUNKS * 64 == CHUNK);
