//! A small guest: a few frames, a few pages, and a program whose stores go through a simulated page table.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use ferrite_crash::{Crash, LyingDisk, LyingMemory, Model, World};
use ferrite_disk::{Access, Disk, Geometry};
use ferrite_memory::{Memory, Span};
use ferrite_pool::holding::RoleSpace;
use ferrite_pool::layout::PAGE;
use ferrite_pool::tie::Generation;
use ferrite_pool::{Extent, Freeze, Role, Stream, Zone};
use parking_lot::Mutex;

use crate::frame_space::{FrameSpace, GuestStore};
use crate::frame_word::FrameContent;
use crate::guest_tie::GuestIdentity;
use crate::pending_change::PendingChange;
use crate::*;

/// The sizes of a guest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GuestShape {
    pub frames: u64,
    /// Frames that the memory has room for.
    pub frames_max: u64,
    pub pages: u64,
    pub model: Model,
    /// Another process owns the pool.
    pub is_lent: bool,
    /// That process has ended when its answers are due.
    pub loses_answers: bool,
}

impl Default for GuestShape {
    fn default() -> Self {
        Self { frames: 4, frames_max: 6, pages: 8, model: Model::MAPPED, is_lent: false, loses_answers: false }
    }
}

impl GuestShape {
    fn layout(self) -> GuestLayout {
        GuestLayout { size: self.pages * PAGE, frames: self.frames, identity: [9; 16], pending: PendingChange::None }
    }

    /// Returns the bytes of the words, the frames, and a page whose first word is the number of frames: the tag.
    pub fn memory_bytes(self) -> u64 {
        self.tag_at() + PAGE
    }

    /// Returns the place of the number of frames.
    pub fn tag_at(self) -> u64 {
        self.layout().map_bytes() + self.frames_max.max(self.frames) * PAGE
    }

    /// Returns a world with a new guest. The first word of each page of the disk names the page.
    pub fn world(self) -> World {
        let memory = Arc::new(LyingMemory::new(self.memory_bytes(), self.model));
        memory.store_word(self.tag_at(), self.frames);
        memory.flush(Span::new(self.tag_at(), 8));
        space(Arc::clone(&memory), self).header().store_new(Generation::first(1), "disk");
        memory.barrier().expect("nothing fails yet");
        let size = self.layout().disk_bytes();
        let mut bytes = vec![0; size as usize];
        for page in 0..self.pages {
            bytes[(page * PAGE) as usize..][..8].copy_from_slice(&value_of(page, 0).to_le_bytes());
        }
        let geometry = Geometry {
            size,
            sector_bytes: 512,
            atomic_bytes: 4096,
            preferred_bytes: 4096,
            volatile_cache: true,
            read_only: false,
            trim: false,
            identity: [0; 16],
        };
        World::new(memory, [LyingDisk::from_image(geometry, &bytes)])
    }

    /// Opens the guest of `world`.
    pub fn open(self, world: &World) -> Result<Arc<GuestRig>> {
        let table = Arc::new(PageTable::default());
        let disk =
            Arc::new(HookedDisk { disk: Arc::clone(world.disk(0)), hooks: Mutex::default(), rig: OnceLock::new() });
        let identity = GuestIdentity { pool: [1; 16], tag: 5, name: "g".into() };
        let space = space(Arc::clone(world.memory()), self);
        let plane = Box::new(SharedTable(Arc::clone(&table)));
        let engine = GuestEngine::new(space, Arc::clone(&disk) as _, plane, identity, || 7)?;
        engine.advance_tie()?;
        let rig = Arc::new(GuestRig { engine, table, disk, memory: Arc::clone(world.memory()), shape: self });
        rig.disk.rig.set(Arc::downgrade(&rig)).expect("set once");
        rig.table.rig.set(Arc::downgrade(&rig)).expect("set once");
        Ok(rig)
    }
}

/// Returns the space of a guest at the start of `memory`.
pub(crate) fn space(memory: Arc<LyingMemory>, shape: GuestShape) -> FrameSpace {
    let layout = GuestLayout { frames: memory.load_word(shape.tag_at()), ..shape.layout() };
    FrameSpace::new(Box::new(RigStore { memory, shape }), layout)
}

struct RigStore {
    memory: Arc<LyingMemory>,
    shape: GuestShape,
}

impl RigStore {
    fn set_frames(&self, frames: u64) -> ferrite_pool::Result<()> {
        self.memory.store_word(self.shape.tag_at(), frames);
        self.memory.flush(Span::new(self.shape.tag_at(), 8));
        self.drain()
    }
}

impl GuestStore for RigStore {
    fn memory(&self) -> &dyn Memory {
        &*self.memory
    }

    fn check(&self) -> ferrite_pool::Result<()> {
        Ok(())
    }

    fn drain(&self) -> ferrite_pool::Result<()> {
        Ok(self.memory.drain()?)
    }

    fn register_freezer(&self, _engine: Weak<dyn Freeze>) {}

    fn sees_copies(&self) -> bool {
        !self.shape.is_lent
    }

    fn stream(&self, role: Role) -> Stream {
        let map_pages = self.shape.layout().map_bytes() / PAGE;
        let (page, pages) = match role {
            Role::MAP => (0, map_pages),
            _ => (map_pages, self.memory.load_word(self.shape.tag_at())),
        };
        Stream::new(&[Extent { page, pages: pages as u32, role, zone: Zone::Normal }], role)
    }

    fn widen(&self, parts: &[RoleSpace]) -> ferrite_pool::Result<()> {
        if self.shape.loses_answers {
            return Err(ferrite_pool::Error::OwnerEnded);
        }
        let data = parts.iter().find(|part| part.role == Role::DATA).expect("frames");
        self.set_frames(data.bytes / PAGE)
    }

    fn narrow(&self, _role: Role, bytes: u64) -> ferrite_pool::Result<()> {
        self.set_frames(bytes / PAGE)?;
        if self.shape.loses_answers { Err(ferrite_pool::Error::OwnerEnded) } else { Ok(()) }
    }

    fn attributes(&self) -> [u8; 64] {
        [0; 64]
    }

    fn set_attributes(&self, _attributes: [u8; 64]) -> ferrite_pool::Result<()> {
        Ok(())
    }
}

/// Returns the value that version `version` of a page has in its first word.
pub(crate) fn value_of(page: u64, version: u64) -> u64 {
    (page + 1) << 32 | version
}

/// The bytes that a page of the program shows.
enum Mapping {
    /// Those at this address of the pool's memory, writable.
    Frame(u64),
    /// A copy, read-only.
    Shown(Vec<u8>),
}

/// The page table of the program.
#[derive(Default)]
pub(crate) struct PageTable {
    pages: Mutex<HashMap<u64, Mapping>>,
    rig: OnceLock<Weak<GuestRig>>,
}

struct SharedTable(Arc<PageTable>);

impl Plane for SharedTable {
    fn map(&self, pages: &[(u64, u64)]) -> bool {
        self.0.pages.lock().extend(pages.iter().map(|(page, at)| (*page, Mapping::Frame(*at))));
        true
    }

    fn stage(&self, first: u64, count: u64) {
        run_hooks(&self.0.rig, RaceMoment::Stage);
        self.0.pages.lock().retain(|page, _| !(first..first + count).contains(page));
        run_hooks(&self.0.rig, RaceMoment::Staged);
    }

    fn stage_all(&self) {
        self.0.pages.lock().clear();
    }

    fn fill(&self, page: u64, bytes: &[u8]) -> ferrite_memory::Result<()> {
        self.0.pages.lock().insert(page, Mapping::Shown(bytes.to_vec()));
        Ok(())
    }

    fn add_frames(&self, _memory: &dyn Memory, _runs: &[Span]) -> ferrite_memory::Result<()> {
        Ok(())
    }
}

/// A moment of a batch at which the program acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RaceMoment {
    Stage,
    Staged,
    Write,
    Flush,
    Flushed,
}

pub(crate) const MOMENTS: [RaceMoment; 5] =
    [RaceMoment::Stage, RaceMoment::Staged, RaceMoment::Write, RaceMoment::Flush, RaceMoment::Flushed];

/// The acts of a program, each once at the next such moment.
type ProgramActs = Vec<(RaceMoment, Box<dyn FnOnce(&GuestRig) + Send>)>;

/// The disk of a guest, during whose requests the program goes on.
pub(crate) struct HookedDisk {
    disk: Arc<LyingDisk>,
    hooks: Mutex<ProgramActs>,
    rig: OnceLock<Weak<GuestRig>>,
}

fn run_hooks(rig: &OnceLock<Weak<GuestRig>>, moment: RaceMoment) {
    let Some(rig) = rig.get().and_then(Weak::upgrade) else { return };
    let due: Vec<_> = rig.disk.hooks.lock().extract_if(.., |(at, _)| *at == moment).collect();
    due.into_iter().for_each(|(_, act)| act(&rig));
}

impl Disk for HookedDisk {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> ferrite_memory::Result<()> {
        self.disk.read(at, into)
    }

    fn write(&self, at: u64, from: &[u8], access: Access) -> ferrite_memory::Result<()> {
        run_hooks(&self.rig, RaceMoment::Write);
        self.disk.write(at, from, access)
    }

    fn flush(&self) -> ferrite_memory::Result<()> {
        run_hooks(&self.rig, RaceMoment::Flush);
        self.disk.flush()?;
        run_hooks(&self.rig, RaceMoment::Flushed);
        Ok(())
    }
}

/// An open guest and its program.
pub(crate) struct GuestRig {
    pub engine: GuestEngine,
    table: Arc<PageTable>,
    disk: Arc<HookedDisk>,
    memory: Arc<LyingMemory>,
    shape: GuestShape,
}

impl GuestRig {
    /// Schedules an act of the program for the next `moment`.
    pub fn at(&self, moment: RaceMoment, act: impl FnOnce(&Self) + Send + 'static) {
        self.disk.hooks.lock().push((moment, Box::new(act)));
    }

    fn frame(&self, page: u64) -> Option<u64> {
        match self.table.pages.lock().get(&page) {
            Some(Mapping::Frame(at)) => Some(*at),
            _ => None,
        }
    }

    /// Stores `version` to `page`, as another thread than the engine's. Waits for room by steps.
    pub fn store(&self, page: u64, version: u64) {
        for _ in 0..9 {
            if let Some(at) = self.frame(page) {
                let _program = self.memory.as_thread(1);
                return self.memory.store_word(at, value_of(page, version));
            }
            if !self.engine.fault(page).expect("nothing fails") {
                self.engine.step().expect("nothing fails");
            }
        }
        panic!("a store to page {page} never got a frame");
    }

    /// Makes the program's stores to `page` durable, as a program does: by a flush of its own address and a fence. Notes
    /// that version `version` is.
    pub fn persist(&self, page: u64, version: u64) {
        if !self.table.pages.lock().contains_key(&page) {
            self.engine.read_fault(page).expect("nothing fails");
        }
        let _program = self.memory.as_thread(1);
        if let Some(at) = self.frame(page) {
            self.memory.flush(Span::new(at, 8));
        }
        self.memory.fence();
        self.memory.mark(value_of(page, version));
    }

    /// Stores and persists, unless the store would wait for a frame or the page has a later version.
    pub fn try_put(&self, page: u64, version: u64) {
        if self.load(page) > value_of(page, version) {
            return;
        }
        let is_mapped = || self.frame(page).is_some();
        if is_mapped() || self.engine.fault(page).expect("nothing fails") && is_mapped() {
            self.put(page, version);
        }
    }

    /// Stores and persists.
    pub fn put(&self, page: u64, version: u64) {
        self.store(page, version);
        self.persist(page, version);
    }

    /// Returns the value that the program loads from `page`.
    pub fn load(&self, page: u64) -> u64 {
        if !self.table.pages.lock().contains_key(&page) {
            self.engine.read_fault(page).expect("nothing fails");
        }
        match self.table.pages.lock().get(&page).expect("mapped or shown") {
            Mapping::Frame(at) => self.memory.load_word(*at),
            Mapping::Shown(bytes) => u64::from_le_bytes(*bytes.first_chunk().expect("a page")),
        }
    }

    /// Checks that each page is a version of itself, that each copy is right (VR5), and that the disk has all bytes after
    /// everything was demoted. Returns the version of each page.
    pub fn versions(&self) -> std::result::Result<Vec<u64>, String> {
        let bytes = |page: u64| {
            let mut bytes = vec![0; PAGE as usize];
            self.engine.read(page * PAGE, &mut bytes).map(|()| bytes).map_err(|error| error.to_string())
        };
        let on_disk = |page: u64| {
            let disk = self.disk.disk.snapshot();
            disk[(page * PAGE) as usize..((page + 1) * PAGE) as usize].to_vec()
        };
        let mut all = Vec::new();
        for page in 0..self.shape.pages {
            let read = bytes(page)?;
            let value = u64::from_le_bytes(*read.first_chunk().expect("a page"));
            if value >> 32 != page + 1 || read[8..].iter().any(|byte| *byte != 0) {
                return Err(format!("page {page} has other bytes: {value:x}"));
            }
            let frame = self.engine.lock().frames.frame_of(page);
            let is_copy = |frame| self.engine.lock().frames.content(frame) == FrameContent::Copy(page);
            if frame.is_some_and(is_copy) && on_disk(page) != read {
                return Err(format!("the copy of page {page} is not what the disk has"));
            }
            all.push(value & 0xffff_ffff);
        }
        Ok(all)
    }

    /// Demotes everything, and checks that the disk has what the guest has.
    pub fn check_disk(&self) -> std::result::Result<(), String> {
        let before = self.versions()?;
        self.engine.demote_all(&mut |_, _| true).map_err(|error| error.to_string())?;
        let disk = self.disk.disk.snapshot();
        for (page, version) in before.iter().enumerate() {
            let at = page * PAGE as usize;
            let value = u64::from_le_bytes(*disk[at..].first_chunk().expect("a page"));
            if value != value_of(page as u64, *version) {
                return Err(format!("page {page} on the disk is {value:x} and not of version {version}"));
            }
        }
        Ok(())
    }
}

/// Checks what a crash left: every page is a version of itself, and none is older than acknowledged.
pub(crate) fn check_crash(shape: GuestShape, crash: &Crash<'_>) -> std::result::Result<(), String> {
    check_world(shape, &crash.world(), crash.marks())
}

/// Checks what a crash left of a run that acknowledged `marks`.
pub(crate) fn check_world(shape: GuestShape, world: &World, marks: &[u64]) -> std::result::Result<(), String> {
    let rig = shape.open(world).map_err(|error| error.to_string())?;
    let versions = rig.versions()?;
    for mark in marks {
        let (page, version) = ((mark >> 32) - 1, mark & 0xffff_ffff);
        if versions[page as usize] < version {
            return Err(format!("page {page} has version {}, and {version} was durable", versions[page as usize]));
        }
    }
    rig.check_disk()
}
