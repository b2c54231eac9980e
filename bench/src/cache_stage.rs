//! Caches of SSDs for experiments, with their metadata in a pool of anonymous memory.

use std::collections::HashMap;
use std::sync::Arc;

use ferrite_cache::{BLOCK, Cache, CacheLayout, CacheSettings, CacheSpec, MemberOpener, NewDisk, NewSsd};
use ferrite_cache::{OpenOptions, StampPlace};
use ferrite_disk::{Clock, Disk};
use ferrite_memory::{MapOptions, Mapped, Memory, Scheme};
use ferrite_pool::layout::{CHUNK, POOL_BYTES_MIN};
use ferrite_pool::{Format, Pool};

use crate::Result;
use crate::pool_tree::BOOT;
use crate::scratch::touched;

/// The name of the cache and of its disk.
pub const NAME: &str = "cache";

/// The parts of a cache that is made for an experiment.
pub struct CacheStage {
    /// The SSDs, whose size is a whole number of LEBs.
    pub ssds: Vec<Arc<dyn Disk>>,
    /// The disk behind the cache.
    pub disk: Arc<dyn Disk>,
    /// The clock of timeouts and rates.
    pub clock: Arc<dyn Clock>,
    /// Bytes of a LEB.
    pub leb_bytes: u64,
    /// Bytes of all buffers.
    pub buffer_bytes: u64,
    /// The settings.
    pub settings: CacheSettings,
    /// How slots are stored.
    pub scheme: Scheme,
}

/// Opens the members of a cache by their addresses.
struct StageMembers(HashMap<String, Arc<dyn Disk>>);

impl MemberOpener for StageMembers {
    fn open(&self, address: &str) -> std::result::Result<Arc<dyn Disk>, String> {
        self.0.get(address).cloned().ok_or_else(|| format!("there is no {address}"))
    }
}

fn ssd_address(number: usize) -> String {
    format!("ssd{number}")
}

impl CacheStage {
    /// Returns the bytes of the pool that holds the cache.
    fn pool_bytes(&self) -> Result<u64> {
        let lebs = self.ssds.iter().map(|ssd| ssd.geometry().size / self.leb_bytes).sum();
        let one = CacheLayout::new(self.leb_bytes, 4, lebs)?;
        let layout = CacheLayout::new(self.leb_bytes, self.buffer_bytes.div_ceil(one.buffer_bytes()), lebs)?;
        let bytes = POOL_BYTES_MIN + layout.map_bytes() + layout.data_bytes() + 4 * CHUNK;
        Ok(bytes.next_multiple_of(CHUNK))
    }

    /// Makes the anonymous memory of a pool for the cache, with every page touched.
    pub fn memory(&self) -> Result<Mapped> {
        touched(Mapped::anonymous(self.pool_bytes()?, &MapOptions::default())?)
    }

    /// Makes a pool in `memory` and in it the cache.
    pub fn create(&self, memory: &Arc<dyn Memory>) -> Result<()> {
        Pool::create(&**memory, &Format { uuid: [7; 16], boot_id: BOOT })?;
        let pool = Arc::new(Pool::open(Arc::clone(memory), BOOT)?.0);
        let new_ssd = |(number, disk): (usize, &Arc<dyn Disk>)| NewSsd {
            address: ssd_address(number),
            disk: Arc::clone(disk),
            uuid: [number as u8 + 10; 16],
        };
        let disk = NewDisk {
            export: NAME.into(),
            address: "disk".into(),
            disk: Arc::clone(&self.disk),
            uuid: [9; 16],
            stamp: StampPlace::None,
        };
        let spec = CacheSpec {
            name: NAME.into(),
            settings: self.settings,
            leb_bytes: self.leb_bytes,
            buffer_bytes: self.buffer_bytes,
            ssds: self.ssds.iter().enumerate().map(new_ssd).collect(),
            disks: vec![disk],
            lose: None,
            nonce: 5,
        };
        Ok(spec.create(&pool)?)
    }

    /// Opens the cache that [`CacheStage::create`] made in `memory`, perhaps with other disks of the same content.
    pub fn open(self, memory: &Arc<dyn Memory>) -> Result<Arc<Cache>> {
        let pool = Arc::new(Pool::open(Arc::clone(memory), BOOT)?.0);
        let named = self.ssds.into_iter().enumerate().map(|(number, disk)| (ssd_address(number), disk));
        let members = named.chain([("disk".into(), self.disk)]).collect();
        let opener = Arc::new(StageMembers(members));
        let options = OpenOptions { opener, clock: self.clock, scheme: self.scheme, random: || 3 };
        Ok(Cache::open(&pool, NAME, options)?)
    }
}

/// Returns the size of an SSD with room for `bytes` of LEBs, and one more for its stamp.
pub fn ssd_bytes(bytes: u64, leb_bytes: u64) -> u64 {
    (bytes / leb_bytes + 1) * leb_bytes
}

/// Bytes of a request of the experiments: a block.
pub const REQUEST_BYTES: u64 = BLOCK;
