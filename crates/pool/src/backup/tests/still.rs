//! Backup beside a pool at work.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex};

use super::*;
use crate::{Freeze, Tag};

/// Keeps two words of its tag equal, by stores of its own: between requests they are, within one they are not.
struct Twins {
    pool: Arc<Pool>,
    tag: Arc<Tag>,
    /// Locked while a request is under way.
    stopped: Mutex<bool>,
    goes_on: Condvar,
}

impl Twins {
    fn at(&self) -> u64 {
        self.tag.extents[0].span().at
    }

    fn request(&self, value: u64) {
        let mut stopped = self.stopped.lock();
        self.goes_on.wait_while(&mut stopped, |stopped| *stopped);
        self.pool.memory().store_word(self.at(), value);
        std::thread::yield_now();
        self.pool.memory().store_word(self.at() + 8, value);
    }
}

impl Freeze for Twins {
    fn freeze(&self) {
        *self.stopped.lock() = true;
    }

    fn thaw(&self) {
        *self.stopped.lock() = false;
        self.goes_on.notify_all();
    }
}

fn twins(pool: &Arc<Pool>) -> Arc<Twins> {
    let needs = [SpaceNeed { role: Role::DATA, zone: Zone::Normal, bytes: PAGE }];
    let new = NewTag { name: "twins", kind: TagKind(77), size: 16, attributes: [0; 64], needs: &needs };
    let tag = pool.create_tag(&new, |extents| {
        pool.memory().zero(extents[0].span(), Scheme::Nt);
        Ok(pool.memory().drain()?)
    });
    let (stopped, goes_on) = (Mutex::new(false), Condvar::new());
    let twins = Arc::new(Twins { pool: Arc::clone(pool), tag: tag.unwrap(), stopped, goes_on });
    pool.register_freezer(Arc::<Twins>::downgrade(&twins));
    twins
}

/// BK1: every image taken while a service stores and values change is of one moment.
#[test]
fn bk1_an_image_is_of_one_moment() {
    let (_, pool) = make(POOL_BYTES_MIN);
    let pool = Arc::new(pool);
    let twins = twins(&pool);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| (1..).take_while(|_| !done.load(Ordering::SeqCst)).for_each(|value| twins.request(value)));
        scope.spawn(|| {
            (0..250u8).cycle().take_while(|_| !done.load(Ordering::SeqCst)).for_each(|byte| {
                put(&pool, "value", &vec![byte; 9000]);
            });
        });
        for _ in 0..12 {
            let image = image_of(&pool);
            let memory = blank(POOL_BYTES_MIN);
            restored(&image, &memory, false).unwrap();
            let words = [0, 8].map(|offset| memory.load_word(twins.at() + offset));
            assert_eq!(words[0], words[1], "a request was cut in two");
            let (back, recovery) = Pool::open(memory, BOOT).unwrap();
            assert!(recovery.clean && recovery.replay.transactions == 0);
            if back.tag("value").is_ok() {
                let value = get(&back, "value");
                assert!(value.len() == 9000 && value.iter().all(|byte| *byte == value[0]));
            }
        }
        done.store(true, Ordering::SeqCst);
    });
}

/// Has the files of a device, and must not be asked to stand still for one of them.
struct Owns(u64);

impl Freeze for Owns {
    fn freeze(&self) {
        panic!("who writes the image would wait for it");
    }

    fn thaw(&self) {}

    fn has_files_on(&self, device: u64) -> bool {
        device == self.0
    }
}

#[test]
fn f5_an_image_in_the_pool_itself_is_refused_and_nothing_stands_still() {
    use std::os::unix::fs::MetadataExt;

    let folder = tempfile::tempdir().unwrap();
    let (_, pool) = make(POOL_BYTES_MIN);
    let service: Arc<dyn Freeze> = Arc::new(Owns(folder.path().metadata().unwrap().dev()));
    pool.register_freezer(Arc::downgrade(&service));
    let refused = backup_to(&pool, &folder.path().join("image"), [9; 16], &mut |_| true).unwrap_err();
    assert!(refused.to_string().contains("lies in the pool itself"), "{refused}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "no part of it is left");
}
