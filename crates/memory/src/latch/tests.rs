use super::*;

#[test]
fn one_thread_has_it_at_a_time() {
    let latch = Latch::new((0_u64, 0_u64));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    let mut both = latch.lock();
                    both.0 += 1;
                    both.1 += 1;
                    assert_eq!(both.0, both.1);
                }
            });
        }
    });
    assert_eq!(*latch.lock(), (80_000, 80_000));
    let held = latch.lock();
    assert!(latch.try_lock().is_none(), "it is had");
    drop(held);
    assert!(latch.try_lock().is_some());
}
