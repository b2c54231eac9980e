use super::*;

#[test]
fn repairing_a_valid_slot_changes_nothing() {
    for seed in seeds() {
        assert_eq!(repaired(&seed), seed, "the slot's layout changed: repair no longer reaches its fields");
    }
}
