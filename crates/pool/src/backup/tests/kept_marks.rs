//! KI5, SN4: saves that read only the pages to which a thread stored.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use ferrite_crash::{StoreHook, StoreMoment};
use ferrite_disk::RamDisk;
use ferrite_memory::planted::plant;

use super::kept::{FROZEN, image_disk, kept, restored_kept};
use super::*;

/// A pool on a snapshot, its memory below the snapshot, and its image, which has one save.
struct Marked {
    inner: Arc<LyingMemory>,
    snapshot: Arc<PoolSnapshot>,
    pool: Pool,
    disk: Arc<RamDisk>,
    image: KeptImage,
}

impl Marked {
    fn new() -> Self {
        let inner = blank(POOL_BYTES_MIN);
        Pool::create(&*inner, &Format { uuid: [1; 16], boot_id: BOOT }).unwrap();
        let snapshot = Arc::new(PoolSnapshot::new(inner.clone()));
        let pool = Pool::open(snapshot.clone(), BOOT).unwrap().0;
        put(&pool, "value", &[1; 3 * PAGE as usize]);
        put(&pool, "other", &[1; 3 * PAGE as usize]);
        let disk = image_disk(&pool);
        let image = kept(&disk);
        let mut marked = Self { inner, snapshot, pool, disk, image };
        marked.save();
        marked
    }

    fn save(&mut self) {
        let options = SaveOptions { snapshot: Some(&self.snapshot), ..FROZEN };
        self.image.save(&self.pool, &options, &mut quiet).unwrap();
    }

    /// Returns the offset of value `other`.
    fn at(&self) -> u64 {
        self.pool.tag("other").unwrap().extents[0].page * PAGE
    }

    /// Stores a word of value `other` as another process does, by a mapping of its own.
    fn store_past(&self, word: u64) {
        self.inner.store_word(self.at(), word);
    }

    /// Returns the word of value `other` in the newest save.
    fn saved_word(&self) -> u64 {
        let memory = blank(POOL_BYTES_MIN);
        restored_kept(&self.disk, &memory).unwrap();
        memory.load_word(self.at())
    }

    fn saved_values(&self) -> BTreeMap<String, Vec<u8>> {
        let memory = blank(POOL_BYTES_MIN);
        restored_kept(&self.disk, &memory).unwrap();
        ensure_sound(&memory);
        values(&open(&memory))
    }
}

/// Changes, removes and makes values, and saves after each step. Returns true if each save held what the pool did.
fn saves_hold_what_the_pool_does() -> bool {
    let mut marked = Marked::new();
    (0..24_u8).all(|step| {
        let name = ["value", "more", "zeros"][usize::from(step % 3)];
        match step % 5 {
            0 if marked.pool.tag(name).is_ok() => {
                marked.pool.remove_tag(&marked.pool.tag(name).unwrap()).unwrap();
            }
            _ => {
                let byte = if name == "zeros" { 0 } else { step };
                put(&marked.pool, name, &vec![byte; usize::from(step % 7) * 5000 + 1]);
            }
        }
        marked.save();
        marked.saved_values() == values(&marked.pool)
    })
}

#[test]
fn ki5_saves_by_marks_hold_what_the_pool_does() {
    assert!(saves_hold_what_the_pool_does());
}

#[test]
fn canary_a_store_that_marks_nothing_is_caught() {
    let _bug = plant("snapshot: a store marks nothing");
    // A damaged value panics.
    let caught = std::panic::catch_unwind(saves_hold_what_the_pool_does);
    assert!(!caught.unwrap_or(false));
}

/// KI5: a save reads only marked pages, so it does not see a store that passed by the snapshot.
#[test]
fn ki5_a_page_without_a_mark_is_not_read() {
    let mut marked = Marked::new();
    let before = marked.saved_word();
    marked.store_past(7);
    put(&marked.pool, "value", b"later");
    marked.save();
    assert_eq!(marked.saved_word(), before);
    assert_eq!(marked.saved_values()["value"], b"later");
}

/// KI5: marks do not count after a failed save, in an image that was opened again, and once a part was shared.
#[test]
fn ki5_without_marks_each_page_is_summed() {
    let mut marked = Marked::new();
    let options = SaveOptions { snapshot: Some(&marked.snapshot), ..FROZEN };
    let cancelled = marked.image.save(&marked.pool, &options, &mut |_| false);
    assert!(matches!(cancelled, Err(Error::Cancelled(_))));
    marked.store_past(7);
    marked.save();
    assert_eq!(marked.saved_word(), 7);

    marked.image = kept(&marked.disk);
    marked.store_past(8);
    marked.save();
    assert_eq!(marked.saved_word(), 8);

    let _ = marked.snapshot.share(Span::new(0, PAGE));
    for word in [9, 10] {
        marked.store_past(word);
        marked.save();
        assert_eq!(marked.saved_word(), word);
    }
}

/// KI5: a save without the snapshot leaves the marks of an earlier moment behind.
#[test]
fn ki5_marks_of_an_earlier_moment_do_not_count() {
    let mut marked = Marked::new();
    marked.image.save(&marked.pool, &FROZEN, &mut quiet).unwrap();
    marked.store_past(7);
    marked.save();
    assert_eq!(marked.saved_word(), 7);
}

/// Stores a word of value `other` without a gate, and saves at `moment` of that store: the save decides which pages it
/// reads while the store is under way. Returns the word in the next save.
fn saved_around_a_store(moment: StoreMoment) -> u64 {
    let inner = blank(POOL_BYTES_MIN);
    Pool::create(&*inner, &Format { uuid: [1; 16], boot_id: BOOT }).unwrap();
    let hook = Arc::new(StoreHook::new(inner));
    let snapshot = Arc::new(PoolSnapshot::new(hook.clone()));
    let pool = Arc::new(Pool::open(snapshot.clone(), BOOT).unwrap().0);
    put(&pool, "other", &[1; 3 * PAGE as usize]);
    let at = pool.tag("other").unwrap().extents[0].page * PAGE;
    let disk = image_disk(&pool);
    let image = Arc::new(Mutex::new(kept(&disk)));
    let save = {
        let (pool, snapshot) = (Arc::downgrade(&pool), Arc::downgrade(&snapshot));
        move || {
            let (pool, snapshot) = (pool.upgrade().unwrap(), snapshot.upgrade().unwrap());
            let options = SaveOptions { snapshot: Some(&snapshot), ..FROZEN };
            image.lock().unwrap().save(&pool, &options, &mut quiet).unwrap();
        }
    };
    save();
    let (is_done, saves) = (AtomicBool::new(false), save.clone());
    hook.set(move |now| {
        // The save stores too.
        if now == moment && !is_done.swap(true, Ordering::Relaxed) {
            saves();
        }
    });
    pool.memory().store_word(at, 7);
    hook.clear();
    save();
    let restored = blank(POOL_BYTES_MIN);
    restored_kept(&*disk, &restored).unwrap();
    restored.load_word(at)
}

/// SN4: whenever the save decides, the page keeps a mark for the next save.
#[test]
fn sn4_a_store_beside_the_decision_of_a_save_is_in_the_next_save() {
    for moment in [StoreMoment::Before, StoreMoment::After] {
        assert_eq!(saved_around_a_store(moment), 7, "{moment:?}");
    }
}

#[test]
fn canary_a_page_that_is_marked_before_its_store_is_caught() {
    let _bug = plant("snapshot: a page is marked before its store");
    assert_ne!(saved_around_a_store(StoreMoment::Before), 7);
}
