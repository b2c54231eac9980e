//! What the owner refuses a tenant, and what that leaves.

use ferrite_pool::grant::{GrantRequest, GrantRights, Process, ProcessIdentity};
use ferrite_pool::layout::GRANT_SLOTS;

use super::*;

fn data_bytes(pool: &Pool, name: &str) -> u64 {
    Stream::new(&pool.tag(name).unwrap().extents, Role::DATA).len()
}

/// HO6: the wider tag would need a grant of its own before the old one ends, and no slot is free.
#[test]
fn ho6_a_widening_that_gets_no_grant_changes_nothing_and_poisons_nobody() {
    let owner = Owner::new();
    let tenant = owner.tenant();
    tenant.create(&spec("a", true)).unwrap();
    let held = tenant.hold("a").unwrap();
    owner.tenant().create(&spec("b", true)).unwrap();
    let (tag, process) = (owner.pool.tag("b").unwrap(), Process::recall(stranger(), BOOT));
    let ask = GrantRequest { tag: &tag, extents: &tag.extents, rights: GrantRights::ReadWrite, process: &process };
    let others: Vec<_> = (1..GRANT_SLOTS).map(|_| owner.pool.grant(&ask).unwrap().id).collect();
    let (bytes, free) = (data_bytes(&owner.pool, "a"), owner.pool.usage().free_bytes);
    let parts = [RoleSpace { role: Role::DATA, bytes: 9 * PAGE }];
    let refused = held.widen(&parts).unwrap_err();
    assert!(refused.kind() == FailureKind::Limit && refused.to_string().contains("grants are in use"), "{refused}");
    held.check_poison().unwrap();
    assert_eq!((data_bytes(&owner.pool, "a"), owner.pool.usage().free_bytes), (bytes, free));
    account(&owner.pool);
    owner.pool.grants().release(&owner.pool, others[0]).unwrap();
    held.widen(&parts).unwrap();
    assert_eq!(held.stream(Role::DATA).len(), 9 * PAGE);
}

/// A process with the number of this one, whose state is unknown.
fn stranger() -> ProcessIdentity {
    ProcessIdentity { pid: std::process::id(), namespace: 0, start_ticks: 7, boot_id: BOOT }
}

/// G5: a number is given again.
#[test]
fn g5_a_grant_of_another_process_of_the_same_number_is_neither_given_back_nor_widened() {
    let owner = Owner::new();
    spec("a", true).create(&owner.pool).unwrap();
    let (tag, process) = (owner.pool.tag("a").unwrap(), Process::recall(stranger(), BOOT));
    let ask = GrantRequest { tag: &tag, extents: &tag.extents, rights: GrantRights::ReadWrite, process: &process };
    let id = owner.pool.grant(&ask).unwrap().id;
    let parts = vec![RoleSpace { role: Role::DATA, bytes: 9 * PAGE }];
    for request in [LeaseRequest::Release { id }, LeaseRequest::Widen { name: "a".into(), id, parts }] {
        assert_eq!(refused(&owner, &request).kind, FailureKind::NotFound);
    }
    assert_eq!(owner.pool.grants().standing()[0].id, id);
    assert_eq!(data_bytes(&owner.pool, "a"), 4 * PAGE);
}
