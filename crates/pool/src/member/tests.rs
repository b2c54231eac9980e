//! Proofs of E1 to E3.

use std::sync::Arc;

use ferrite_crash::{CrashReport, LyingMemory, Model, explore};

use super::*;
use crate::layout::{CHUNK, LANES};
use crate::tests::support::{BOOT, DeafMemory, MemoryCall, new_pool, open, options, reopen};

fn member(number: u8) -> PoolMember {
    let label = format!("disk {number}");
    let (generation, previous) = (g(5), Some(g(5)));
    PoolMember { uuid: [number; 16], kind: MemberKind::Ssd, generation, previous, size: 1 << 40, label }
}

fn g(count: u64) -> Generation {
    Generation::of(count << 16 | 7).unwrap()
}

fn message_of(outcome: Result<()>) -> String {
    outcome.unwrap_err().to_string()
}

#[test]
fn members_come_and_go_and_survive_reopening() {
    let memory = new_pool(Model::MAPPED);
    let pool = open(&memory);
    let backing = PoolMember { kind: MemberKind::Disk, label: "ü".repeat(32), ..member(2) };
    pool.add_member(&member(1)).unwrap();
    pool.add_member(&backing).unwrap();
    assert_eq!(pool.superblock().version, 2, "E4");
    pool.member_tie([1; 16]).set_current(g(6)).unwrap();
    let expected = vec![PoolMember { generation: g(6), ..member(1) }, backing.clone()];
    assert_eq!(pool.members().unwrap(), expected);
    drop(pool);
    let pool = open(&memory);
    assert_eq!(pool.members().unwrap(), expected);
    pool.remove_member(&[1; 16]).unwrap();
    assert_eq!(pool.members().unwrap(), [backing]);
}

#[test]
fn e2_e3_what_would_contradict_the_table_is_refused() {
    let pool = open(&new_pool(Model::MAPPED));
    pool.add_member(&member(1)).unwrap();
    let one = show_uuid(&[1; 16]);
    assert_eq!(
        message_of(pool.add_member(&member(1))),
        format!("{one} is already a member of this pool, as \"disk 1\"")
    );
    for generation in [1, 4, 5].map(g) {
        let expected = format!("member {one} already has generation 5.0007, and {generation} is not newer");
        assert_eq!(message_of(pool.member_tie([1; 16]).set_current(generation)), expected);
    }
    let unknown = format!("{} is not a member of this pool", show_uuid(&[7; 16]));
    assert_eq!(message_of(pool.member_tie([7; 16]).set_previous(None)), unknown);
    assert_eq!(pool.member_tie([7; 16]).load().unwrap_err().to_string(), unknown);
    assert_eq!(message_of(pool.remove_member(&[7; 16])), unknown);
    for label in ["", "a\tb", &"x".repeat(65)] {
        let message = message_of(pool.add_member(&PoolMember { label: label.into(), ..member(3) }));
        assert!(message.contains("is not a valid label of a member: 1 to 64 bytes"), "{message}");
    }
    assert_eq!(pool.members().unwrap(), [member(1)]);
}

#[test]
fn a_full_table_says_so() {
    let pool = open(&new_pool(Model::MAPPED));
    (1..=31).for_each(|number| pool.add_member(&member(number)).unwrap());
    assert_eq!(message_of(pool.add_member(&member(33))), "the pool has 31 members: remove one first");
    pool.member_tie([31; 16]).set_current(g(9)).unwrap();
    pool.remove_member(&[7; 16]).unwrap();
    pool.add_member(&member(33)).unwrap();
    // The last slot belongs to the images.
    pool.add_member(&PoolMember { kind: MemberKind::Image, ..member(34) }).unwrap();
    assert_eq!(pool.members().unwrap().len(), 32);
}

/// Adds, stamps and removes; what is acknowledged is marked.
fn changes(model: Model, ignores: impl Fn(MemoryCall) -> bool + Send + Sync + 'static) -> CrashReport {
    let memory = new_pool(model);
    let pool = Pool::open(DeafMemory::new(&memory, ignores), BOOT).unwrap().0;
    pool.add_member(&member(1)).unwrap();
    memory.mark(0);
    memory.forget_trace();
    let mut states = vec![pool.members().unwrap()];
    let steps: [&dyn Fn() -> Result<()>; 5] = [
        &|| pool.member_tie([1; 16]).set_current(g(6)),
        &|| pool.member_tie([1; 16]).set_previous(None),
        &|| pool.add_member(&member(2)),
        &|| pool.remove_member(&[1; 16]),
        &|| pool.add_member(&member(3)),
    ];
    for (number, step) in steps.into_iter().enumerate() {
        step().unwrap();
        memory.mark(number as u64 + 1);
        states.push(pool.members().unwrap());
    }
    explore(&memory, &options(1 << 10, 150), |crash| {
        let (_, pool) = reopen(crash)?;
        let (found, done) =
            (pool.members().map_err(|error| error.to_string())?, crash.last_mark().unwrap_or(0) as usize);
        let allowed = &states[done..states.len().min(done + 2)];
        if allowed.contains(&found) { Ok(()) } else { Err(format!("E1: {found:?} after step {done}")) }
    })
}

#[test]
fn e1_crash_leaves_every_member_old_or_new() {
    for model in Model::ALL {
        let report = changes(model, |_| false);
        println!("members: {report}");
        report.assert_clean();
    }
}

#[test]
fn canary_a_member_stamped_without_a_fence_is_caught() {
    for model in Model::ALL {
        changes(model, |call| matches!(call, MemoryCall::Settle(span) if (LANES..CHUNK).contains(&span.at)))
            .expect_failure();
    }
}

#[test]
fn damaged_slots_are_told_with_their_place_and_the_pool_is_not_touched() {
    let memory = new_pool(Model::MAPPED);
    let pool = open(&memory);
    (1..=3).for_each(|number| pool.add_member(&member(number)).unwrap());
    pool.close().unwrap();
    let second = MEMBERS + SLOT;
    let changed = |change: &dyn Fn(&mut MemberMedia)| {
        let mut media = MemberMedia::read_from_bytes(&member(2).encode()).unwrap();
        change(&mut media);
        media.crc = crc32fast::hash(&media.as_bytes()[4..]).into();
        media.as_bytes().to_vec()
    };
    let cases: [(Vec<u8>, &str); 8] = [
        (vec![1; SLOT_BYTES], "checksum"),
        (changed(&|media| media.kind = 4.into()), "kind"),
        (changed(&|media| media.version = 3.into()), "generation"),
        (changed(&|media| media.state = 2.into()), "generation"),
        (changed(&|media| media.generation = u64::MAX.into()), "generation"),
        (changed(&|media| media.label_len = 65.into()), "label"),
        (changed(&|media| media.label[0] = 0xff), "label"),
        (changed(&|media| media.uuid = [1; 16]), "a second one for its UUID"),
    ];
    for (bytes, what) in cases {
        let image = Arc::new(LyingMemory::from_image(&memory.snapshot(), Model::MAPPED));
        image.store(second, &bytes, ferrite_memory::Scheme::Nt);
        let before = image.snapshot();
        let message = Pool::open(image.clone(), BOOT).unwrap_err().to_string();
        let place =
            format!("at byte {second:#x} of the pool is corrupt: run `ferrite pool check`, or restore a backup");
        assert_eq!(message, format!("the member slot ({what}) {place}"));
        assert!(image.snapshot() == before);
    }
}

#[test]
fn a_slot_is_as_documented() {
    use crate::tests::format_page::{rows, table};
    let expected = rows!(MemberMedia { crc, kind, generation, uuid, size, label_len, label, previous, state, version });
    assert_eq!(table("### Member slot"), expected);
}

/// E4: a crash leaves no slot with a tie in a pool that a program without ties would open.
#[test]
fn e4_crash_leaves_no_tie_in_a_pool_of_the_first_version() {
    for model in Model::ALL {
        let memory = new_pool(model);
        let pool = open(&memory);
        memory.forget_trace();
        pool.add_member(&member(1)).unwrap();
        let report = explore(&memory, &options(1 << 10, 150), |crash| {
            let (memory, pool) = reopen(crash)?;
            match pool.superblock().version {
                1 if has_ties(&*memory) => Err("E4: a tie in a pool of version 1".into()),
                _ => Ok(()),
            }
        });
        report.assert_clean();
    }
}

/// A slot of the first layout is read, and has a tie from its first change on.
#[test]
fn a_slot_of_the_first_layout_is_read_and_changed() {
    let memory = new_pool(Model::MAPPED);
    let mut media = MemberMedia::read_from_bytes(&member(1).encode()).unwrap();
    (media.generation, media.previous, media.state, media.version) = (3.into(), 0.into(), 0.into(), 0.into());
    media.crc = crc32fast::hash(&media.as_bytes()[4..]).into();
    memory.store(MEMBERS, media.as_bytes(), ferrite_memory::Scheme::Nt);
    let pool = open(&memory);
    let counted = Generation::of(3 << 16).unwrap();
    let tie = pool.member_tie([1; 16]).load().unwrap();
    assert_eq!((tie.current, tie.previous, pool.superblock().version), (counted, Some(counted), 1));
    crate::tie::renew(&pool.member_tie([1; 16]), Some(tie.stamp()), 9).unwrap();
    let tie = pool.member_tie([1; 16]).load().unwrap();
    assert_eq!((tie.current, tie.previous, pool.superblock().version), (counted.next(9), Some(counted), 2));
}
