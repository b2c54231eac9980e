//! The user's word for a medium: recorded, bound to that medium, and taken back.

use std::sync::Arc;

use ferrite_crash::{LyingMemory, Model};
use ferrite_memory::{Claim, Memory, Scheme, Span, Survival, Survives, forward_memory};

use crate::layout::POOL_BYTES_MIN;
use crate::{Format, Pool};

const BOOT: [u8; 16] = [1; 16];

/// A memory whose medium a test chooses.
struct On {
    memory: LyingMemory,
    medium: Survival,
}

impl Memory for On {
    forward_memory!(self => self.memory; size, fence_is_durable, load, store, zero, load_word, store_word, flush, fence);
    forward_memory!(self => self.memory; barrier);

    fn survival(&self) -> Survival {
        self.medium.clone()
    }
}

fn medium(survives: Survives, why: &str) -> Survival {
    let yes = Claim::new(Survives::Yes, "kept");
    Survival { process_crash: yes.clone(), kernel_crash: yes, power_loss: Claim::new(survives, why) }
}

/// Returns the content of `from` on another medium.
fn moved(from: &Arc<On>, medium: Survival) -> Arc<On> {
    let (memory, mut bytes) = (LyingMemory::new(from.size(), Model::MAPPED), vec![0; from.size() as usize]);
    from.load(0, &mut bytes);
    memory.store(0, &bytes, Scheme::Nt);
    memory.persist(Span::new(0, from.size())).expect("nothing fails");
    Arc::new(On { memory, medium })
}

fn power_loss(memory: &Arc<On>) -> Claim {
    Pool::open(Arc::clone(memory) as _, BOOT).expect("it opens").0.survival().power_loss
}

#[test]
fn trust_is_recorded_for_the_medium_that_was_trusted_and_taken_back() {
    let nfs = || medium(Survives::NotKnown, "nfs decides");
    let memory = Arc::new(On { memory: LyingMemory::new(POOL_BYTES_MIN, Model::MAPPED), medium: nfs() });
    Pool::create(&*memory, &Format { uuid: [7; 16], boot_id: BOOT }).expect("created");
    assert_eq!(power_loss(&memory), nfs().power_loss, "nobody is trusted unasked");
    let (pool, _) = Pool::open(Arc::clone(&memory) as _, BOOT).expect("it opens");
    pool.trust_medium(true).expect("recorded");
    let trusted = Claim::new(Survives::Yes, "trusted by its user, else not known: nfs decides");
    assert_eq!(pool.survival().power_loss, trusted);
    drop(pool);
    assert_eq!(power_loss(&memory), trusted, "also after a crash");
    let lost = medium(Survives::No, "tmpfs is memory");
    assert_eq!(power_loss(&moved(&memory, lost.clone())), lost.power_loss, "another medium");
    let kept = medium(Survives::Yes, "a disk");
    assert_eq!(power_loss(&moved(&memory, kept.clone())), kept.power_loss, "what is known needs no trust");
    let (pool, _) = Pool::open(Arc::clone(&memory) as _, BOOT).expect("it opens");
    pool.trust_medium(false).expect("recorded");
    pool.close().expect("closed");
    assert_eq!(power_loss(&memory), nfs().power_loss);
}
