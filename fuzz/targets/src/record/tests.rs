use super::*;

#[test]
fn repairing_valid_records_changes_nothing() {
    for seed in seeds() {
        assert_eq!(repaired(&seed), seed, "the record's layout changed: repair no longer reaches its fields");
        assert!(!committed(&seed, SALT, 2).records.is_empty());
    }
}
