//! Tables and LEBs as the worker frees them.

use std::collections::BTreeSet;

use crate::tests::{BLOCKS, RigShape};

/// CA9: a table may be noted as empty by several threads, which overwrite its last pages while it becomes valid. Freed
/// twice, its LEB and its number would be given to two others.
#[test]
fn ca9_a_table_that_is_listed_twice_is_freed_once() {
    let shape = RigShape::default();
    let world = shape.world();
    let rig = shape.open(&world).expect("it opens");
    for block in 0..BLOCKS {
        rig.write(block, 100 + block);
    }
    rig.settle();
    rig.clean();
    let mut worker = rig.cache.worker.lock();
    let (sequence, valid) = worker.valid.first_key_value().map(|(sequence, valid)| (*sequence, *valid)).expect("a LEB");
    rig.cache.core.note_empty(valid.table);
    rig.cache.core.note_empty(valid.table);
    assert_eq!(rig.cache.core.take_empty().len(), 1);
    worker.free_valid_tables(&[(sequence, valid.table), (sequence, valid.table)]).expect("nothing fails");
    drop(worker);
    rig.settle();
    let worker = rig.cache.worker.lock();
    let tables: BTreeSet<u32> = worker.free_tables.iter().copied().collect();
    assert_eq!(tables.len(), worker.free_tables.len(), "a table is free twice");
    assert!(tables.contains(&valid.table));
}
