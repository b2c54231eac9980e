//! A grant that is reaped while it is given.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ferrite_memory::forward_memory;

use super::*;
use crate::layout::{GRANTS, LANES};

/// A memory that, once armed, reaps the grants of its pool in another thread while a transaction is being recorded.
struct Busy {
    memory: LyingMemory,
    pool: OnceLock<Arc<Pool>>,
    armed: AtomicBool,
}

impl Memory for Busy {
    forward_memory!(
        self => self.memory;
        size, survival, fence_is_durable, load, zero, load_word, store_word, store_words, flush, fence, barrier
    );

    fn store(&self, at: u64, from: &[u8], how: Scheme) {
        self.memory.store(at, from, how);
        if (LANES..CHUNK).contains(&at) && self.armed.swap(false, Ordering::SeqCst) {
            let pool = self.pool.get().expect("open");
            thread::scope(|scope| {
                scope.spawn(|| pool.grants().reap(pool).expect("reaped"));
            });
        }
    }
}

/// G3: if a process ends before its grant is recorded, it has the grant until that is reaped, on the medium as in DRAM.
/// A slot that is left behind would, at the next opening, free a page that belongs to another owner by then.
#[test]
fn g3_a_grant_is_not_reaped_before_it_is_recorded() {
    let memory = LyingMemory::new(POOL_BYTES, Model::MAPPED);
    memory.keep_trace(false);
    Pool::create(&memory, &Format { uuid: [7; 16], boot_id: THIS_BOOT }).expect("create");
    let busy = Arc::new(Busy { memory, pool: OnceLock::new(), armed: AtomicBool::new(false) });
    let pool = Arc::new(Pool::open(busy.clone(), THIS_BOOT).expect("open").0);
    assert!(busy.pool.set(Arc::clone(&pool)).is_ok());
    let (tag, process) = (tag(&pool, "a", &[need(Zone::Normal, 9 * PAGE)]).expect("tag"), long_gone());
    // More pieces than a slot holds, so that the grant has a page of its own.
    let pieces = every_other_page(&tag, 5);
    busy.armed.store(true, Ordering::SeqCst);
    pool.grant(&GrantRequest { extents: &pieces, ..ask(&tag, &process) }).expect("granted");
    let recorded = |pool: &Pool| {
        let mut slot = [0; SLOT_BYTES];
        pool.memory().load(GRANTS, &mut slot);
        slot != [0; SLOT_BYTES]
    };
    assert_eq!((pool.grants().standing().len(), recorded(&pool)), (1, true));
    assert_accounted(&pool);
    pool.grants().reap(&pool).expect("reaped");
    assert_eq!((pool.grants().standing().len(), recorded(&pool)), (0, false));
    assert_accounted(&pool);
}
