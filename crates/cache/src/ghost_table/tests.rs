//! Blocks that missed lately.

use super::*;

#[test]
fn second_miss_is_noticed() {
    let ghost = GhostTable::new(1000);
    let key = BlockKey::new(0, 77);
    assert!(!ghost.note(key));
    assert!(ghost.note(key));
    assert!(!ghost.note(BlockKey::new(1, 77)), "a block of another disk");
}
