use super::*;

const KIB: usize = 1 << 10;

/// Guards this machine has.
fn guards() -> impl Iterator<Item = Guard> {
    Guard::ALL.into_iter().map(|(_, guard)| guard).filter(|guard| guard.ensure_available().is_ok())
}

fn anonymous(size: u64, guard: Guard) -> Mapped {
    Mapped::anonymous(size, &MapOptions { guard, name: "test".into(), ..MapOptions::default() }).unwrap()
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + seed * 31 + 1) as u8 | 1).collect()
}

/// Stores `len` bytes at `at` and expects them there, and the bytes around them untouched.
fn round_trip(memory: &Mapped, at: u64, len: usize, how: Scheme) {
    let (from, around) = (pattern(len, at as usize), 64);
    memory.store(at, &from, how);
    memory.fence();
    let mut back = vec![0; len + 2 * around];
    memory.load(at - around as u64, &mut back);
    assert_eq!(&back[around..around + len], &from[..], "{len} bytes at {at} by {how:?}");
    assert!(
        back[..around].iter().chain(&back[around + len..]).all(|byte| *byte == 0),
        "{len} at {at} by {how:?} spilt"
    );
    memory.zero(Span::new(at, len as u64), how);
    memory.load(at - around as u64, &mut back);
    assert!(back.iter().all(|byte| *byte == 0), "zeroing {len} bytes at {at} by {how:?}");
}

/// Every scheme puts exactly its bytes, at every alignment to a line and length up to 300.
#[test]
fn every_scheme_stores_exactly_its_bytes() {
    let memory = anonymous(1 << 20, Guard::None);
    for (_, how) in Scheme::ALL.into_iter().filter(|(_, how)| how.ensure_available().is_ok()) {
        for at in 4096..4096 + 64 {
            (0..=300).for_each(|len| round_trip(&memory, at, len, how));
        }
        [4 * KIB, 256 * KIB].into_iter().for_each(|len| round_trip(&memory, 4096 + 13, len, how));
    }
}

/// Every guard lets every scheme through, words and flushes too.
#[test]
fn every_guard_lets_its_own_accesses_through() {
    for guard in guards() {
        let memory = anonymous(1 << 20, guard);
        for (_, how) in Scheme::ALL.into_iter().filter(|(_, how)| how.ensure_available().is_ok()) {
            for len in [0, 1, 7, 8, 63, 64, 65, 300, 4 * KIB, 256 * KIB] {
                [4096, 4096 + 21, 8191].into_iter().for_each(|at| round_trip(&memory, at, len, how));
            }
        }
        memory.store_word(4096, 0x0102_0304_0506_0708);
        memory.persist(Span::new(4096, 8)).unwrap();
        let mut bytes = [0; 8];
        memory.load(4096, &mut bytes);
        assert_eq!((bytes, memory.load_word(4096)), ([8, 7, 6, 5, 4, 3, 2, 1], 0x0102_0304_0506_0708));
    }
}
