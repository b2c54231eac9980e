use super::*;
use crate::{Guard, MapOptions, Scheme};

fn held_kib(file: &std::fs::File) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap()) / 2
}

#[test]
fn runs_are_the_held_pages() {
    let found: Vec<Span> = runs(8192, &[1, 3, 0, 2, 1, 0]).collect();
    assert_eq!(found, [Span::new(8192, 8192), Span::new(8192 + 4 * 4096, 4096)]);
    assert_eq!(runs(0, &[1; 5]).collect::<Vec<_>>(), [Span::new(0, 5 * 4096)]);
    assert_eq!(runs(0, &[0; 5]).count(), 0);
}

/// M1 for `writeback-all`: its barrier finds every page that was stored to, in any part and through any guard, and
/// makes the host of a sparse memory find no more.
#[test]
fn the_barrier_finds_what_is_held_and_fills_no_hole() {
    for guard in Guard::ALL.map(|(_, guard)| guard).into_iter().filter(|guard| guard.ensure_available().is_ok()) {
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        file.set_len(40 << 20).unwrap();
        let options = MapOptions { guard, name: "sparse".into(), ..MapOptions::default() };
        let memory = Mapped::map(file.try_clone().unwrap(), &options).unwrap();
        assert!(!memory.whole.is_used());
        for at in [0, 5 << 20, (40 << 20) - 64] {
            memory.store(at, &[3; 64], Scheme::WritebackAll);
            let mut held = [0];
            memory.find_held(Span::new(at / PAGE * PAGE, PAGE), &mut held);
            assert_eq!(held[0] & 1, 1, "{guard:?}: the page at {at} is not found");
        }
        assert!(memory.whole.is_used());
        let before_kib = held_kib(&file);
        memory.barrier().unwrap();
        assert_eq!(held_kib(&file), before_kib, "{guard:?}: the barrier filled holes");
    }
}
