//! A small cache: LEBs of three pages, two SSDs, one disk.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use ferrite_crash::{LyingDisk, LyingMemory, Model, World};
use ferrite_disk::{Access, Clock, Disk, Geometry, VirtualClock};
use ferrite_memory::{Memory, Scheme};
use ferrite_pool::layout::{CHUNK, POOL_BYTES_MIN};
use ferrite_pool::{Format, Pool};
use parking_lot::Mutex;

use crate::*;

pub(crate) const BOOT: [u8; 16] = [7; 16];
/// Bytes of a LEB: a header page and three data pages.
pub(crate) const LEB: u64 = 16 << 10;
/// The blocks of the disk.
pub(crate) const BLOCKS: u64 = 24;

/// The shape of a rig.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RigShape {
    pub model: Model,
    pub ssds: usize,
    /// Devices that are there and not in the cache.
    pub spares: usize,
    /// Bytes of each of them.
    pub spare_bytes: u64,
    pub lebs: u64,
    pub buffers: u64,
    pub stamp: StampPlace,
    pub settings: CacheSettings,
    /// The seed of members that complete requests later and in any order; `None`: at once.
    pub deferring: Option<u64>,
}

impl Default for RigShape {
    fn default() -> Self {
        let settings = CacheSettings {
            mode: CacheMode::WriteBack,
            policy: CachePolicy::Paper,
            bypass_bytes: 0,
            dirty_max_permille: 500,
            destage_rate: Some(0),
            ..CacheSettings::default()
        };
        Self {
            model: Model::MAPPED,
            ssds: 2,
            spares: 0,
            spare_bytes: LEBS_MIN * LEB,
            lebs: LEBS_MIN,
            buffers: 6,
            stamp: StampPlace::None,
            settings,
            deferring: None,
        }
    }
}

/// The members that are there, by their addresses.
pub(crate) struct RigOpener(pub Mutex<HashMap<String, Arc<dyn Disk>>>);

impl MemberOpener for RigOpener {
    fn open(&self, address: &str) -> std::result::Result<Arc<dyn Disk>, String> {
        self.0.lock().get(address).cloned().ok_or_else(|| format!("{address} is not there"))
    }
}

/// The cache and its members.
pub(crate) struct CacheRig {
    pub cache: Arc<Cache>,
    pub disk: Arc<CachedDisk>,
    pub pool: Arc<Pool>,
    pub clock: Arc<VirtualClock>,
    pub members: Arc<RigOpener>,
}

pub(crate) fn geometry(size: u64) -> Geometry {
    Geometry {
        size,
        sector_bytes: 512,
        atomic_bytes: 4096,
        preferred_bytes: 4096,
        volatile_cache: true,
        read_only: false,
        trim: true,
        identity: [0; 16],
    }
}

/// Returns the content of a block that `version` writes; 0 is the content of a new disk.
pub(crate) fn block_of(version: u64) -> Vec<u8> {
    thread_local! {
        static KNOWN: RefCell<HashMap<u64, Vec<u8>>> = RefCell::default();
    }
    let words = |version: u64| (0..BLOCK / 8).flat_map(move |at| (version << 32 | at).to_le_bytes()).collect();
    match version {
        0 => vec![0; BLOCK as usize],
        _ => KNOWN.with_borrow_mut(|known| known.entry(version).or_insert_with(|| words(version)).clone()),
    }
}

/// Returns the members of `world` by their addresses, which has the disk behind the SSDs and the spare ones behind it.
pub(crate) fn members_of(world: &World, shape: &RigShape) -> HashMap<String, Arc<dyn Disk>> {
    let disk = |number: usize| Arc::clone(world.disk(number)) as Arc<dyn Disk>;
    let named = (0..shape.ssds).map(|number| (format!("ssd{number}"), disk(number)));
    let spares = (shape.ssds..shape.ssds + shape.spares).map(|number| (format!("ssd{number}"), disk(number + 1)));
    named.chain(spares).chain([("disk".to_string(), disk(shape.ssds))]).collect()
}

impl RigShape {
    /// Makes a new cache in a new world: the SSDs are its first disks, then the disk, then the spare SSDs.
    pub fn world(&self) -> World {
        let memory = LyingMemory::new(POOL_BYTES_MIN + 6 * CHUNK, self.model);
        Pool::create(&memory, &Format { uuid: [1; 16], boot_id: BOOT }).expect("a new pool");
        memory.barrier().expect("nothing fails yet");
        let stamp_bytes = if self.stamp == StampPlace::None { 0 } else { STAMP_BYTES };
        let member = |size, number: u64| {
            let disk = LyingDisk::new(geometry(size));
            match self.deferring {
                Some(seed) => disk.deferring(seed + number),
                None => disk,
            }
        };
        let ssds = (0..self.ssds as u64).map(|number| member(self.lebs * LEB, number));
        let disk = member(BLOCKS * BLOCK + stamp_bytes, 99);
        let spares = (0..self.spares as u64).map(|number| member(self.spare_bytes, 200 + number));
        let world = World::new(memory, ssds.chain([disk]).chain(spares));
        let members = members_of(&world, self);
        let pool = open_pool(&world).expect("it opens");
        let layout = CacheLayout::new(LEB, 4, 1).expect("a layout");
        let ssds = (0..self.ssds).map(|number| NewSsd {
            address: format!("ssd{number}"),
            disk: Arc::clone(&members[&format!("ssd{number}")]),
            uuid: [10 + number as u8; 16],
        });
        let disk = NewDisk {
            export: "c".into(),
            address: "disk".into(),
            disk: Arc::clone(&members["disk"]),
            uuid: [9; 16],
            stamp: self.stamp,
        };
        let spec = CacheSpec {
            name: "c".into(),
            settings: self.settings,
            leb_bytes: LEB,
            buffer_bytes: self.buffers * layout.buffer_bytes(),
            ssds: ssds.collect(),
            disks: vec![disk],
            lose: None,
            nonce: 5,
        };
        spec.create(&pool).expect("a new cache");
        drop(pool);
        world
    }

    /// Opens the cache of `world`.
    pub fn open(&self, world: &World) -> std::result::Result<CacheRig, String> {
        self.open_without(world, &[])
    }

    /// Opens the cache of `world` while some members are not there.
    pub fn open_without(&self, world: &World, missing: &[&str]) -> std::result::Result<CacheRig, String> {
        let mut members = members_of(world, self);
        members.retain(|name, _| !missing.contains(&name.as_str()));
        self.open_with(world, members)
    }

    /// Opens the cache of `world` with these members.
    pub fn open_with(
        &self,
        world: &World,
        members: HashMap<String, Arc<dyn Disk>>,
    ) -> std::result::Result<CacheRig, String> {
        let clock = Arc::new(VirtualClock::default());
        let mut rig = self.open_members(world, members, clock.clone())?;
        rig.clock = clock;
        Ok(rig)
    }

    /// Opens the cache of `world` with these members, by this clock.
    pub fn open_members(
        &self,
        world: &World,
        members: HashMap<String, Arc<dyn Disk>>,
        clock: Arc<dyn Clock>,
    ) -> std::result::Result<CacheRig, String> {
        let pool = open_pool(world)?;
        let members = Arc::new(RigOpener(Mutex::new(members)));
        let opener: Arc<dyn MemberOpener> = members.clone();
        let options = OpenOptions { opener, clock, scheme: Scheme::Nt, random: || 3 };
        let cache = Cache::open(&pool, "c", options).map_err(|error| error.to_string())?;
        let disk = cache.disk("c").map_err(|error| error.to_string())?;
        Ok(CacheRig { cache, disk, pool, clock: Arc::default(), members })
    }
}

pub(crate) fn open_pool(world: &World) -> std::result::Result<Arc<Pool>, String> {
    let memory: Arc<dyn Memory> = world.memory().clone();
    Ok(Arc::new(Pool::open(memory, BOOT).map_err(|error| error.to_string())?.0))
}

impl CacheRig {
    /// Writes `version` to block `block`.
    pub fn write(&self, block: u64, version: u64) {
        self.disk.write(block * BLOCK, &block_of(version), Access::Cached).expect("written");
    }

    /// Returns the content of block `block`.
    pub fn read(&self, block: u64) -> std::result::Result<Vec<u8>, String> {
        let mut bytes = vec![0; BLOCK as usize];
        self.disk.read(block * BLOCK, &mut bytes).map_err(|error| error.to_string())?;
        Ok(bytes)
    }

    /// Does background work until nothing is left to do.
    pub fn settle(&self) {
        for round in 0..1000 {
            self.cache.step().expect("a step");
            if round >= 3 && self.cache.is_idle() {
                return;
            }
        }
    }

    /// Writes all dirty pages to the disk.
    pub fn clean(&self) {
        self.cache.clean_all(true);
        for _ in 0..1000 {
            self.cache.step().expect("a step");
            if self.cache.dirty_bytes() == 0 {
                break;
            }
        }
        self.cache.clean_all(false);
        assert_eq!(self.cache.dirty_bytes(), 0, "all is clean");
    }
}
