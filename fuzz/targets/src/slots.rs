//! Slots of the member and of the grant table, as found and with valid checksums.

use ferrite_pool::decode::decode_member;
use ferrite_pool::grant::{SLOT_BYTES, decode_slot};

/// Pages of the pool of the slots.
const PAGES: u64 = 4096;

pub fn target(data: &[u8]) {
    let mut slot = [0; SLOT_BYTES];
    let len = data.len().min(SLOT_BYTES);
    slot[..len].copy_from_slice(&data[..len]);
    check(&slot);
    repair(&mut slot);
    check(&slot);
}

fn check(slot: &[u8; SLOT_BYTES]) {
    if let Ok(Some(member)) = decode_member(slot, 0) {
        assert!((1..=64).contains(&member.label.len()), "a label that cannot be given was believed");
    }
    if let Ok(Some(grant)) = decode_slot(slot, 0, PAGES) {
        let within = grant.record.extents.iter().all(|extent| extent.end() <= PAGES);
        assert!(within, "an extent beyond the pool was believed");
    }
}

fn repair(slot: &mut [u8; SLOT_BYTES]) {
    let crc = crc32fast::hash(&slot[4..]);
    slot[..4].copy_from_slice(&crc.to_le_bytes());
}

/// Returns slots written by hand, from docs/format.md.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut member = [0; SLOT_BYTES];
    crate::put(&mut member, 4, &2_u32.to_le_bytes());
    crate::put(&mut member, 8, &3_u64.to_le_bytes());
    crate::put(&mut member, 16, &[9; 16]);
    crate::put(&mut member, 40, &4_u64.to_le_bytes());
    crate::put(&mut member, 48, b"disk");
    let mut grant = [0; SLOT_BYTES];
    crate::put(&mut grant, 4, &2_u32.to_le_bytes());
    crate::put(&mut grant, 8, &1_u64.to_le_bytes());
    crate::put(&mut grant, 16, &5_u64.to_le_bytes());
    crate::put(&mut grant, 24, &700_u32.to_le_bytes());
    crate::put(&mut grant, 56, &1_u32.to_le_bytes());
    crate::put(&mut grant, 80, &600_u64.to_le_bytes());
    crate::put(&mut grant, 88, &8_u32.to_le_bytes());
    [member, grant]
        .map(|mut slot| {
            repair(&mut slot);
            slot.to_vec()
        })
        .to_vec()
}

#[cfg(test)]
mod tests;
