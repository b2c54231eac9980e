//! Writes of a disk between two flushes, alone and beside clients.

use std::sync::Arc;

use ferrite_disk::{Disk, StatsDisk};

use crate::BLOCK;
use crate::tests::{BLOCKS, RigShape, block_of, members_of};

/// Destages twelve blocks that are no neighbours. Returns the flushes of the disk.
fn flushes(has_client: bool) -> u64 {
    let shape = RigShape::default();
    let world = shape.world();
    let mut members = members_of(&world, &shape);
    let counted = Arc::new(StatsDisk::new(Arc::clone(&members["disk"])));
    members.insert("disk".into(), Arc::clone(&counted) as Arc<dyn Disk>);
    let rig = shape.open_with(&world, members).expect("it opens");
    for block in (0..BLOCKS).step_by(2) {
        rig.settle();
        rig.write(block, 100 + block);
    }
    rig.settle();
    rig.clock.advance_to(1_000_000_000);
    if has_client {
        rig.read(1).expect("a read of the disk");
    }
    let before = counted.stats();
    rig.clean();
    let after = counted.stats();
    assert_eq!(after.writes - before.writes, BLOCKS / 2, "each block is a write of its own");
    for block in (0..BLOCKS).step_by(2) {
        let mut read = vec![0; BLOCK as usize];
        counted.read(block * BLOCK, &mut read).expect("read");
        assert_eq!(read, block_of(100 + block), "block {block}");
    }
    after.flushes - before.flushes
}

#[test]
fn disk_that_clients_use_gets_few_writes_between_two_flushes() {
    assert_eq!([flushes(false), flushes(true)], [1, 3]);
}
