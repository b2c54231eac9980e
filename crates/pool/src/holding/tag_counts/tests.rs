//! Counts of own and lent tags, through slots that are used again.

use std::sync::Arc;

use ferrite_memory::{MapOptions, Mapped};

use super::*;
use crate::grant::Process;
use crate::holding::lease_counters::{counters_of, publish};
use crate::holding::{RoleSpace, TagSpec};
use crate::layout::{CHUNK, PAGE, POOL_BYTES_MIN};
use crate::tests::support::BOOT;
use crate::{Caller, Format, PidFd, Role, TagKind};

/// Returns a new pool in memory that processes can share.
fn pool() -> Arc<Pool> {
    let memory = Arc::new(Mapped::anonymous(POOL_BYTES_MIN + CHUNK, &MapOptions::default()).expect("memory"));
    Pool::create(&*memory, &Format { uuid: [1; 16], boot_id: BOOT }).expect("created");
    Arc::new(Pool::open(memory, BOOT).expect("opened").0)
}

fn make(pool: &Pool, name: &str) -> Arc<Tag> {
    let parts = vec![RoleSpace { role: Role::DATA, bytes: PAGE }];
    let (name, kind) = (name.into(), TagKind::OBJECT.0);
    TagSpec { name, kind, size: PAGE, attributes: vec![], parts, has_log: false }.create(pool).expect("made")
}

/// Returns a process of this machine that holds tags beside the owner.
fn process() -> Process {
    let pid = std::process::id();
    let process = PidFd::open(pid).expect("this process");
    Process::of(&Caller { pid, uid: 0, process, connection: 0 }, BOOT)
}

/// Returns the requests of each operation that the owner sees.
fn requests(pool: &Pool, tag: &Tag) -> [u64; LEASE_OPS] {
    TagCounts::of(pool).totals(tag).map(|totals| totals.requests)
}

#[test]
fn the_owner_sees_the_counts_of_its_own_leases() {
    let pool = pool();
    let tag = make(&pool, "a");
    for _ in 0..2 {
        let lease = pool.hold("a").expect("held").timed(|| 5);
        lease.end_alone(1, lease.begin(1), Some(64));
        lease.end_alone(3, lease.begin(3), None);
        // An operation that does not exist is not counted.
        lease.end_alone(LEASE_OPS, lease.begin(LEASE_OPS), None);
    }
    assert_eq!(requests(&pool, &tag), [0, 2, 0, 2]);
    let [_, append, _, cut] = TagCounts::of(&pool).totals(&tag);
    assert_eq!((append.bytes, append.errors, cut.bytes, cut.errors), (128, 0, 0, 2));
    pool.remove_unheld("a").expect("removed");
    assert_eq!(requests(&pool, &tag), [0; LEASE_OPS], "a removed tag has no counts");
}

#[test]
fn the_counts_of_a_client_outlive_its_grant_and_never_count_for_the_next_tag() {
    let pool = pool();
    let (first, second) = (make(&pool, "a"), make(&pool, "b"));
    let lend = |name: &str| pool.lend_tag(name, None, &process()).expect("lent");
    let count = |lent: &crate::holding::Lent| {
        let words = SharedWords::of(lent.words.try_clone().expect("a descriptor")).expect("mapped");
        let counters = counters_of(&words, lent.loan.word - 1, 0).expect("shared");
        counters.end_alone(counters.begin(|| 0), || 9, Some(10));
        publish(&words, lent.loan.word - 1, [4; LEASE_FIGURES]);
    };
    for round in 1..=3 {
        let lent = lend("a");
        assert_eq!(TagCounts::of(&pool).figures(&first), None, "figures of an earlier grant");
        count(&lent);
        assert_eq!(TagCounts::of(&pool).figures(&first), Some([4; LEASE_FIGURES]));
        pool.end_loan(lent.loan.id, &process()).expect("ended");
        assert_eq!(TagCounts::of(&pool).figures(&first), None);
        let lent = lend("b");
        count(&lent);
        pool.end_loan(lent.loan.id, &process()).expect("ended");
        assert_eq!([requests(&pool, &first)[0], requests(&pool, &second)[0]], [round; 2]);
    }
    assert_eq!(TagCounts::of(&pool).totals(&first)[0].bytes, 30);
}

/// A wish reaches the holder that has the tag from this owner, until its grant ends.
#[test]
fn a_wish_reaches_the_holder_of_a_lent_tag() {
    let pool = pool();
    let (first, second) = (make(&pool, "a"), make(&pool, "b"));
    let counts = TagCounts::of(&pool);
    assert!(!counts.set_wish(&first, 5) && !counts.is_reached(&first), "no process has the tag");
    let lent = pool.lend_tag("a", None, &process()).expect("lent");
    let words = SharedWords::of(lent.words.try_clone().expect("a descriptor")).expect("mapped");
    let wished = || crate::holding::lease_counters::wish(&words, lent.loan.word - 1);
    assert_eq!(wished(), None);
    assert!(counts.is_reached(&first) && counts.set_wish(&first, 5) && !counts.set_wish(&second, 6));
    assert_eq!(wished(), Some(5));
    pool.end_loan(lent.loan.id, &process()).expect("ended");
    assert!(!counts.set_wish(&first, 7));
    pool.lend_tag("b", None, &process()).expect("lent");
    assert_eq!(wished(), None, "the wish of an earlier grant in the slot");
    assert_eq!(crate::holding::lease_counters::wish(&words, usize::MAX / 2), None);
}
