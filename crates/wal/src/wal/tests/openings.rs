//! The stores of an opening and of a truncation, beside a freeze (F8 of the pool).

use ferrite_crash::StoreHook;
use ferrite_memory::planted::plant;
use ferrite_pool::Frozen;

use super::*;

/// Opens a log after a truncation that a crash cut off. Returns the number of stores during which a freeze could begin.
fn stores_without_a_pass() -> u64 {
    let (memory, folder) = (new_pool(Model::MAPPED), LyingFolder::default());
    let wal = create(&memory, &folder);
    (0..3).for_each(|number| _ = wal.append(&payload(number), Durability::Strict).unwrap());
    let to = wal.records().nth(2).unwrap().unwrap().0.number();
    memory.store_word(wal.start_at, seal(salt(&wal.holding), to));
    drop(wal);
    let memory = Arc::new(StoreHook::new(memory));
    let pool = Arc::new(Pool::open(memory.clone(), BOOT).unwrap().0);
    let counts: Arc<[AtomicU64; 2]> = Arc::default();
    let (seen, known) = (Arc::clone(&counts), Arc::downgrade(&pool));
    memory.set(move |_| {
        seen[0].fetch_add(1, Ordering::Relaxed);
        let is_free = known.upgrade().is_some_and(|pool| !Frozen::would_wait(&pool));
        seen[1].fetch_add(u64::from(is_free), Ordering::Relaxed);
    });
    let opened = Wal::open(&pool, "log", Box::new(folder)).map(drop);
    memory.clear();
    opened.unwrap();
    assert!(counts[0].load(Ordering::Relaxed) > 0, "the opening cuts the log");
    counts[1].load(Ordering::Relaxed)
}

#[test]
fn f8_no_freeze_begins_between_the_stores_of_an_opening() {
    assert_eq!(stores_without_a_pass(), 0);
}

#[test]
fn canary_an_opening_without_a_pass_is_caught() {
    let _bug = plant("freeze: a service that opens has no pass");
    assert!(stores_without_a_pass() > 0);
}

/// Truncates a log. Returns true if the gate is held when its start is stored.
fn truncation_holds_the_gate() -> bool {
    let folder = LyingFolder::default();
    let memory = Arc::new(StoreHook::new(new_pool(Model::MAPPED)));
    let pool = Arc::new(Pool::open(memory.clone(), BOOT).unwrap().0);
    let wal = Wal::create(&pool, "log", &WalSpec { capacity_bytes: CAPACITY }, Box::new(folder)).unwrap();
    (0..3).for_each(|number| _ = wal.append(&payload(number), Durability::Strict).unwrap());
    let to = wal.records().nth(2).unwrap().unwrap().0;
    let first: Arc<AtomicU64> = Arc::default();
    let (seen, known) = (Arc::clone(&first), Arc::downgrade(&wal));
    memory.set(move |_| {
        let is_held = known.upgrade().is_some_and(|wal| wal.gate.is_locked());
        let _ = seen.compare_exchange(0, 1 + u64::from(is_held), Ordering::Relaxed, Ordering::Relaxed);
    });
    let truncated = wal.truncate(to);
    memory.clear();
    truncated.unwrap();
    first.load(Ordering::Relaxed) == 2
}

#[test]
fn f1_a_truncation_stores_behind_the_gate() {
    assert!(truncation_holds_the_gate());
}

#[test]
fn canary_a_truncation_beside_a_freeze_is_caught() {
    let _bug = plant("wal: a truncation passes no gate");
    assert!(!truncation_holds_the_gate());
}
