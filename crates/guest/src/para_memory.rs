//! A para-virtual region as a [`Memory`]: a pool in a guest, with all services over the pool.
//!
//! Rules M1 to M4 follow from PV1 and PV2: each store persists its bytes, and a barrier makes them durable.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferrite_memory::{Error, Memory, Result, Scheme, Span, Survival, planted};
use ferrite_pool::layout::PAGE;
use parking_lot::Mutex;

use crate::para_region::ParaRegion;

/// The bytes of a region as persistent memory whose fences are not durable, and whose barriers are.
pub struct ParaMemory {
    region: Arc<ParaRegion>,
    /// Why a barrier failed (M4).
    poison: Mutex<Option<String>>,
}

impl ParaMemory {
    /// Returns the memory of `region`, to which nothing else stores.
    pub fn new(region: Arc<ParaRegion>) -> Self {
        Self { region, poison: Mutex::default() }
    }

    fn persist_stored(&self, span: Span) {
        if !planted!("guest: a store to a region's memory is not persisted") {
            self.region.persist(span).expect("stored within the region");
        }
    }
}

impl Memory for ParaMemory {
    fn size(&self) -> u64 {
        self.region.engine().size()
    }

    fn survival(&self) -> Survival {
        self.region.engine().space.memory().survival()
    }

    fn fence_is_durable(&self) -> bool {
        false
    }

    fn load(&self, at: u64, into: &mut [u8]) {
        self.region.load(at, into).expect("a load within the memory");
    }

    fn store(&self, at: u64, from: &[u8], _how: Scheme) {
        self.region.store(at, from).expect("a store within the memory");
        self.persist_stored(Span::new(at, from.len() as u64));
    }

    fn zero(&self, span: Span, how: Scheme) {
        let zeros = [0; PAGE as usize];
        for at in (span.at..span.at + span.len).step_by(PAGE as usize) {
            let len = PAGE.min(span.at + span.len - at) as usize;
            self.store(at, &zeros[..len], how);
        }
    }

    fn load_word(&self, at: u64) -> u64 {
        u64::from_le(self.region.region().word(at).load(Ordering::Acquire))
    }

    fn store_word(&self, at: u64, value: u64) {
        self.region.region().word(at).store(value.to_le(), Ordering::Release);
        self.persist_stored(Span::new(at, 8));
    }

    fn flush(&self, _span: Span) {}

    fn fence(&self) {
        self.region.engine().space.memory().fence();
    }

    fn barrier(&self) -> Result<()> {
        let mut poison = self.poison.lock();
        if let Some(why) = &*poison {
            return Err(Error::Poisoned(why.clone()));
        }
        self.region.barrier().map_err(|error| {
            *poison = Some(error.to_string());
            error.into()
        })
    }

    fn inherit(&self) -> Result<()> {
        // The region was filled from truths, which are durable behind a flush.
        Ok(self.region.engine().flush()?)
    }
}
