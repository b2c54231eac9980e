//! Services that store before they are registered, beside a save (F8).

use ferrite_memory::planted::plant;

use super::*;
use crate::backup::{RestoreOptions, backup, restore};

/// Returns the first two words of tag `a` of `pool`.
fn words(pool: &Pool) -> [u64; 2] {
    let at = pool.tag("a").unwrap().extents[0].span().at;
    [0, 8].map(|word| pool.memory().load_word(at + word))
}

/// Saves the pool while a service opens, between its first store and its second one. Returns the words in the image.
fn saved_beside_an_opening() -> [u64; 2] {
    let pool = Arc::new(pool());
    make(&pool, "a");
    let at = pool.tag("a").unwrap().extents[0].span().at;
    let image = std::thread::scope(|scope| {
        let pass = StorePass::of(&pool);
        pool.memory().store_word(at, 1);
        let save = scope.spawn(|| {
            let mut image = Vec::new();
            backup(&pool, &mut image, [3; 16], &mut |_| true).map(|_| image)
        });
        while !save.is_finished() && !pool.freezers().stores.is_closing() {
            std::thread::yield_now();
        }
        // A service that opens may open another one, also while the save waits.
        drop(StorePass::of(&pool));
        pool.memory().store_word(at + 8, 1);
        drop(pass);
        save.join().unwrap().unwrap()
    });
    let copy: Arc<dyn Memory> = Arc::new(LyingMemory::new(POOL_BYTES_MIN, Model::MAPPED));
    restore(&mut &image[..], &*copy, RestoreOptions::default(), &mut |_| true).unwrap();
    words(&Pool::open(copy, [2; 16]).unwrap().0)
}

#[test]
fn f8_an_image_holds_the_whole_opening() {
    assert_eq!(saved_beside_an_opening(), [1, 1]);
}

#[test]
fn canary_an_opening_without_a_pass_is_caught() {
    let _bug = plant("freeze: a service that opens has no pass");
    assert_eq!(saved_beside_an_opening(), [1, 0]);
}

#[test]
fn f8_an_opening_waits_for_the_end_of_a_freeze() {
    let pool = Arc::new(pool());
    let is_in = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let frozen = pool.freeze();
        let (started, starts) = mpsc::channel();
        let (pool, is_in) = (&pool, &is_in);
        scope.spawn(move || {
            started.send(()).unwrap();
            let _pass = StorePass::of(pool);
            is_in.store(true, Ordering::SeqCst);
        });
        starts.recv().unwrap();
        for _ in 0..1000 {
            assert!(!is_in.load(Ordering::SeqCst), "a pass was given during a freeze");
            std::thread::yield_now();
        }
        drop(frozen);
    });
    assert!(is_in.load(Ordering::SeqCst) && !Frozen::would_wait(&pool));
}

/// F6, F8: the thread that freezes the pool waits for a front, so the front does not open anything.
#[test]
fn f8_nothing_is_opened_for_a_front_that_stops() {
    struct Front(Weak<Pool>);
    impl Freeze for Front {
        fn freeze(&self) {
            self.0.upgrade().unwrap().take_spare(None);
        }
        fn thaw(&self) {}
    }
    struct Closed(Weak<Pool>, AtomicU64);
    impl Freeze for Closed {
        fn freeze(&self) {}
        fn thaw(&self) {}
        fn spare_of_unopened(&self) -> bool {
            let _pass = StorePass::of(&self.0.upgrade().unwrap());
            self.1.fetch_add(1, Ordering::SeqCst) == 0
        }
    }
    let pool = Arc::new(pool());
    let closed = Arc::new(Closed(Arc::downgrade(&pool), AtomicU64::new(0)));
    let as_service: Arc<dyn Freeze> = closed.clone();
    pool.register_freezer(Arc::downgrade(&as_service));
    let front: Arc<dyn Freeze> = Arc::new(Front(Arc::downgrade(&pool)));
    pool.register_front(Arc::downgrade(&front));
    drop(pool.freeze());
    assert_eq!(closed.1.load(Ordering::SeqCst), 0);
    assert!(pool.take_spare(None));
}
