use std::sync::atomic::AtomicBool;

use super::*;
use crate::{Guard, MapOptions, Mapped};

const PAGES: u64 = 16;

fn memory() -> SnapshotMemory<Mapped> {
    let options = MapOptions { guard: Guard::None, name: "snapshot".into(), ..MapOptions::default() };
    SnapshotMemory::new(Mapped::anonymous(PAGES * PAGE, &options).expect("memory"))
}

fn fill(memory: &SnapshotMemory<Mapped>, value: u8) {
    memory.store(0, &[value; (PAGES * PAGE) as usize], Scheme::Nt);
    memory.fence();
}

/// SN2: the pages taken are those of the instant, whatever way a store took since then.
fn taken_are_of_the_instant() -> std::result::Result<(), String> {
    let memory = memory();
    fill(&memory, 1);
    memory.begin(0..PAGES);
    memory.store(100, &[2; 9000], Scheme::Flush);
    memory.zero(Span::new(4 * PAGE - 8, 16), Scheme::Nt);
    memory.store_word(6 * PAGE, 7);
    memory.store_words(&[(8 * PAGE - 8, &[9; 16])]);
    memory.store_summed(10 * PAGE, &[3; 64]);
    memory.release(Span::new(12 * PAGE, PAGE)).map_err(|error| error.to_string())?;
    for page in 0..PAGES {
        let mut bytes = [0; PAGE as usize];
        memory.take(page, &mut bytes);
        if bytes != [1; PAGE as usize] {
            return Err(format!("page {page} is later"));
        }
    }
    memory.end();
    Ok(())
}

#[test]
fn sn2_pages_taken_are_of_the_instant() {
    taken_are_of_the_instant().unwrap();
}

/// SN4: whatever way a store takes, it marks its pages, and no others.
fn stored_pages_are_marked() -> bool {
    let memory = memory();
    fill(&memory, 1);
    memory.take_marks();
    let instant = memory.begin(0..PAGES);
    memory.store(100, &[2; 9000], Scheme::Flush);
    memory.zero(Span::new(4 * PAGE - 8, 16), Scheme::Nt);
    memory.store_word(6 * PAGE, 7);
    memory.store_words(&[(8 * PAGE - 8, &[9; 16])]);
    memory.store_summed(10 * PAGE, &[3; 64]);
    memory.release(Span::new(12 * PAGE, PAGE)).expect("released");
    memory.store(14 * PAGE, &[], Scheme::Nt);
    memory.end();
    memory.store_word(15 * PAGE - 8, 7);
    assert!(memory.has_marks_since(instant));
    let marked: Vec<u64> = (0..PAGES).filter(|page| memory.take_mark(*page)).collect();
    marked == [0, 1, 2, 3, 4, 6, 7, 8, 10, 12, 14]
}

#[test]
fn sn4_pages_that_are_stored_to_are_marked() {
    assert!(stored_pages_are_marked());
}

#[test]
fn canary_a_store_that_marks_nothing_is_caught() {
    let _bug = planted::plant("snapshot: a store marks nothing");
    assert!(!stored_pages_are_marked());
}

/// SN4: marks stay until they are taken, count for the last snapshot of this memory, and not once a part was shared.
#[test]
fn sn4_marks_of_another_instant_do_not_count() {
    let (memory, other) = (memory(), memory());
    let first = memory.begin(0..1);
    memory.end();
    memory.store_word(0, 1);
    let of_other = other.begin(0..1);
    assert!(memory.has_marks_since(first) && !memory.has_marks_since(of_other));
    let second = memory.begin(0..1);
    assert!(!memory.has_marks_since(first) && memory.has_marks_since(second));
    assert!(memory.take_mark(0) && !memory.take_mark(0));
    let _ = memory.share(Span::new(0, PAGE));
    memory.end();
    let third = memory.begin(0..1);
    assert!(!memory.was_shared() && !memory.has_marks_since(third));
}

#[test]
fn canary_a_store_that_keeps_nothing_is_caught() {
    let _bug = planted::plant("snapshot: a store keeps nothing");
    taken_are_of_the_instant().unwrap_err();
}

/// SN2: beside threads that store all the time, each snapshot is of one value, and later stores are all there.
#[test]
fn sn2_beside_threads_that_store() {
    let memory = memory();
    let is_over = AtomicBool::new(false);
    let gate = std::sync::RwLock::new(());
    std::thread::scope(|scope| {
        for thread in 0..2_u64 {
            let (memory, gate, is_over) = (&memory, &gate, &is_over);
            scope.spawn(move || {
                for value in (1..).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                    // A store of all pages is one operation, which ends before the instant.
                    let _pass = gate.read();
                    (0..PAGES).for_each(|page| memory.store_word(page * PAGE + thread * 8, value));
                }
            });
        }
        for _ in 0..200 {
            let instant = gate.write();
            memory.begin(0..PAGES);
            drop(instant);
            let words = |page| {
                let mut bytes = [0; PAGE as usize];
                memory.take(page, &mut bytes);
                [0, 8].map(|at| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes")))
            };
            let first = words(0);
            assert!((1..PAGES).all(|page| words(page) == first));
            memory.end();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let last = memory.load_word(0);
    assert!((0..PAGES).all(|page| memory.load_word(page * PAGE) == last));
}

/// A page that is not in the snapshot is not kept, and the next snapshot starts without what the last one kept.
#[test]
fn a_snapshot_ends() {
    let memory = memory();
    memory.begin(0..2);
    fill(&memory, 1);
    assert_eq!(memory.kept().len(), 2);
    memory.end();
    assert!(memory.kept().is_empty());
    memory.begin(3..4);
    fill(&memory, 2);
    let mut bytes = [0; PAGE as usize];
    memory.take(3, &mut bytes);
    assert_eq!(bytes, [1; PAGE as usize]);
    memory.end();
}
