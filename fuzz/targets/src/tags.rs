//! The tag table: slots and pages of further extents, as found and with valid checksums.

use ferrite_pool::decode::{SLOT_BYTES, decode_overflow, decode_slot};
use ferrite_pool::layout::PAGE;
use ferrite_pool::{Extent, check_name};

/// Pages of the pool of the slots.
const PAGES: u64 = 4096;

pub fn target(data: &[u8]) {
    for bytes in [data.to_vec(), repaired(data, SLOT_BYTES)] {
        slot(&bytes);
    }
    for bytes in [data.to_vec(), repaired(data, PAGE as usize)] {
        overflow(&bytes);
    }
}

fn slot(bytes: &[u8]) {
    let mut slot = [0; SLOT_BYTES];
    let len = bytes.len().min(SLOT_BYTES);
    slot[..len].copy_from_slice(&bytes[..len]);
    if let Ok(Some(decoded)) = decode_slot(&slot, 0, PAGES) {
        assert!(check_name(&decoded.tag.name).is_ok(), "a name that cannot be given was believed");
        within_the_pool(&decoded.tag.extents);
    }
}

fn overflow(bytes: &[u8]) {
    if let Ok((extents, _)) = decode_overflow(bytes, 0, PAGES) {
        within_the_pool(&extents);
    }
}

fn within_the_pool(extents: &[Extent]) {
    for extent in extents {
        let end = extent.page.checked_add(extent.pages.into());
        assert!(end.is_some_and(|end| end <= PAGES), "an extent beyond the pool was believed: {extent:?}");
    }
}

fn repaired(data: &[u8], len: usize) -> Vec<u8> {
    let mut bytes = data.to_vec();
    bytes.resize(len, 0);
    let crc = crc32fast::hash(&bytes[4..]);
    crate::put(&mut bytes, 0, &crc.to_le_bytes());
    bytes
}

/// Returns slots written by hand, from the layout in docs/format.md: the pool's encoders are private.
pub fn seeds() -> Vec<Vec<u8>> {
    let extent = [&600_u64.to_le_bytes()[..], &8_u32.to_le_bytes(), &[0; 4]].concat();
    let mut slot = vec![0; SLOT_BYTES];
    crate::put(&mut slot, 4, &2_u16.to_le_bytes());
    crate::put(&mut slot, 6, &5_u16.to_le_bytes());
    crate::put(&mut slot, 8, &32768_u64.to_le_bytes());
    crate::put(&mut slot, 16, &1_u64.to_le_bytes());
    crate::put(&mut slot, 32, &1_u32.to_le_bytes());
    crate::put(&mut slot, 112, &extent);
    crate::put(&mut slot, 240, b"disk0");
    let mut page = vec![0; PAGE as usize];
    crate::put(&mut page, 4, &2_u32.to_le_bytes());
    crate::put(&mut page, 32, &[extent.clone(), extent].concat());
    vec![repaired(&slot, SLOT_BYTES), repaired(&page, PAGE as usize)]
}

#[cfg(test)]
mod tests;
