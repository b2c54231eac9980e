//! Where the parts of a cache lie in the pool.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use ferrite_memory::{Fletcher, Memory, Scheme, Span};
use ferrite_pool::holding::{RoleSpace, TagLease};
use ferrite_pool::layout::CHUNK;
use ferrite_pool::{Result, Role};

use crate::cache_config::CacheConfig;
use crate::cache_layout::{BLOCK, CONFIG_SLOT, CacheLayout, HEAD, SLOT_HEADER};
use crate::leb_table::{GROUP, TableGroup};

/// The memory of one cache: its tag, and the addresses of buffers and tables in it.
pub(crate) struct CacheMemory {
    lease: TagLease,
    layout: CacheLayout,
    /// Pages of a table, tables of a chunk and bytes of a table: each lookup of a block needs them.
    pages: u32,
    chunk_tables: u32,
    table_bytes: u64,
    /// Starts every checksum of the cache, so that the bytes of a removed cache never count.
    pub salt: u32,
    /// How slots are stored.
    pub scheme: Scheme,
    tables: AtomicU32,
    /// The addresses of the chunks with tables.
    chunks: Box<[OnceLock<u64>]>,
    groups: Box<[OnceLock<TableGroup>]>,
    buffers: Box<[u64]>,
    slots: Box<[SlotPlace]>,
}

/// The addresses of a slot in the pool.
#[derive(Clone, Copy)]
pub(crate) struct SlotPlace {
    pub header: u64,
    pub data: u64,
}

impl CacheMemory {
    /// Returns the memory of the cache in the tag of `lease`. Slots are stored by `scheme`.
    ///
    /// # Errors
    /// The errors of [`CacheLayout::read`].
    pub fn new(lease: TagLease, scheme: Scheme) -> Result<Self> {
        let tag = lease.tag();
        let layout = CacheLayout::read(&tag)?;
        let data = lease.stream(Role::DATA);
        let at = |offset: u64| data.locate(offset).expect("the layout was compared with the tag").at;
        let buffer = |number: u32| u64::from(number) * layout.buffer_bytes();
        let slots = (0..layout.buffers)
            .flat_map(|number| (0..u64::from(layout.pages())).map(move |index| (buffer(number), index)));
        let slots = slots.map(|(first, index)| SlotPlace {
            header: at(first + HEAD + index * SLOT_HEADER),
            data: at(first + layout.buffer_header_bytes() + index * BLOCK),
        });
        // A pool grows only while it is closed.
        let chunks_max = lease.memory().size() / CHUNK;
        let groups_max = (chunks_max * layout.tables_per_chunk()).div_ceil(GROUP.into());
        let memory = Self {
            layout,
            pages: layout.pages(),
            chunk_tables: layout.tables_per_chunk() as u32,
            table_bytes: layout.table_bytes(),
            salt: tag.generation as u32 ^ u32::from_le_bytes(*lease.uuid().first_chunk().expect("four bytes")),
            scheme,
            tables: AtomicU32::new(0),
            chunks: (0..chunks_max).map(|_| OnceLock::new()).collect(),
            groups: (0..groups_max).map(|_| OnceLock::new()).collect(),
            buffers: (0..layout.buffers).map(|number| at(buffer(number))).collect(),
            slots: slots.collect(),
            lease,
        };
        memory.adopt_tables(layout.tables);
        Ok(memory)
    }

    /// Returns the layout; the number of tables is the one of the creation.
    pub fn layout(&self) -> &CacheLayout {
        &self.layout
    }

    /// Returns the number of pages of a table, as [`CacheLayout::pages`] does.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Returns the lease of the tag.
    pub fn lease(&self) -> &TagLease {
        &self.lease
    }

    /// Returns the memory of the pool.
    pub fn memory(&self) -> &dyn Memory {
        self.lease.memory()
    }

    /// Returns the number of tables.
    pub fn tables(&self) -> u32 {
        self.tables.load(Ordering::Acquire)
    }

    /// Returns the address of buffer `number`.
    pub fn buffer(&self, number: u32) -> u64 {
        self.buffers[number as usize]
    }

    /// Returns the addresses of the slot with this number, counted over all buffers.
    pub fn slot(&self, number: u32) -> SlotPlace {
        self.slots[number as usize]
    }

    /// Returns the address of table `number`.
    pub fn table(&self, number: u32) -> u64 {
        let chunk = self.chunks[(number / self.chunk_tables) as usize].get().expect("the table exists");
        chunk + u64::from(number % self.chunk_tables) * self.table_bytes
    }

    /// Returns the group that has table `number`.
    pub fn group_of(&self, number: u32) -> &TableGroup {
        self.groups[(number / GROUP) as usize].get().expect("the table exists")
    }

    /// Returns the addresses of the two configuration slots.
    pub fn config_slots(&self) -> [u64; 2] {
        let map = self.lease.stream(Role::MAP);
        let at = map.locate(0).expect("the first chunk has no table").at;
        [at, at + CONFIG_SLOT]
    }

    /// Adopts the tables that joined after the cache was created: the configuration has their number.
    ///
    /// # Errors
    /// [`ferrite_pool::Error::Limit`] if the tag has no space for as many.
    pub fn adopt_config(&self, config: &CacheConfig) -> Result<()> {
        let layout = CacheLayout::new(self.layout.leb_bytes.into(), self.layout.buffers.into(), config.tables.into())?;
        if self.lease.stream(Role::MAP).len() < layout.map_bytes() {
            return Err(ferrite_pool::Error::Limit(format!(
                "the cache {:?} has less space than its configuration says: run `ferrite pool check`",
                self.lease.tag().name
            )));
        }
        self.adopt_tables(config.tables.max(self.layout.tables));
        Ok(())
    }

    /// Widens the tag to `tables` tables, which are free. Durable on return. They count once the configuration has their
    /// number: after a crash before, the next widening makes them free again.
    ///
    /// # Errors
    /// The errors of [`CacheLayout::new`] and [`TagLease::widen`]. The kind `Full` leaves the cache as it was.
    pub fn widen(&self, tables: u32) -> Result<()> {
        let layout = CacheLayout::new(self.layout.leb_bytes.into(), self.layout.buffers.into(), tables.into())?;
        self.lease.widen(&[RoleSpace { role: Role::MAP, bytes: layout.map_bytes() }])?;
        let before = self.tables();
        let memory = self.memory();
        let map = self.lease.stream(Role::MAP);
        // A table is free while its state is zero. The rest of a chunk that was there already is zero since its creation.
        let fresh = (1 + u64::from(before).div_ceil(layout.tables_per_chunk())) * CHUNK..layout.map_bytes();
        map.runs(Span::new(fresh.start, fresh.end.saturating_sub(fresh.start)))
            .for_each(|run| memory.zero(run, Scheme::Nt));
        self.lease.drain()?;
        self.adopt_tables(tables);
        Ok(())
    }

    fn adopt_tables(&self, tables: u32) {
        let map = self.lease.stream(Role::MAP);
        let chunks = u64::from(tables).div_ceil(self.layout.tables_per_chunk());
        for number in 0..chunks {
            let at = map.locate((1 + number) * CHUNK).expect("the layout was compared with the tag").at;
            self.chunks[number as usize].get_or_init(|| at);
        }
        for group in &self.groups[..tables.div_ceil(GROUP) as usize] {
            group.get_or_init(|| TableGroup::new(&self.layout));
        }
        self.tables.store(tables, Ordering::Release);
    }
}

/// Returns the sum of the block `data`.
pub(crate) fn sum_of(data: &[u8]) -> u32 {
    let mut sum = Fletcher::default();
    sum.add(data);
    sum.finish()
}
