//! A simulated flash SSD: channels in parallel behind one controller and one link, and a write cache.
//!
//! ```text
//!          controller        pages           channel = page number mod channels
//! read  --> one by one --> channel queue --> array read --> link --> done
//! write --> one by one --> link --> cache: done  --> channel queue --> program
//!                               \-> no cache, FUA: channel queue --> program --> done
//! ```
//!
//! - SS1. A channel serves one page at a time, in the order of arrival, reads before programs; while a flush waits or
//!   the cache is full, in turns. Channels do not wait for each other.
//! - SS2. Commands pass the controller, and bytes the link, one after another.
//! - SS3. A flush completes when every page that was in a volatile cache at its arrival is programmed, and the device's
//!   own tables are too; a FUA write when its pages are.
//! - SS4. A write of a page that waits in the cache to be programmed replaces it.
//! - SS5. Trims, and zeroings that free their space, are served one after another, beside all other requests. Each takes
//!   the time of a command, and the time of a block for each erase block that it touches.
//!
//! - SS6. A program counts in the drive's translation layer when it is queued. The copies and erases that it causes are
//!   queued before it, and take the channels in turns. A copy takes a read and a program.
//! - SS7. A trim, and a zeroing that frees its space, informs the layer of each page that lies wholly in its span.
//!
//! A write of part of a page costs the program of all of it. A drive without a translation layer is one that has just
//! been erased: nothing is copied. `ferrite_sim::ftl` has the layers of aged drives.

use ferrite_memory::planted;

use std::collections::{HashMap, HashSet, VecDeque};
use std::iter;
use std::ops::Range;

use crate::sim_disk::{Agenda, Clock, DriveModel, SimDisk, SimJob, SimTicket, SimWork, WriteCache};
use crate::{Access, Disk, Geometry};

mod channel;
mod profile;
#[cfg(test)]
mod tests;
mod translation;

use channel::{FlashChannel, PagePurpose, PageWork};
pub use profile::SsdProfile;
#[cfg(test)]
pub(crate) use translation::tests::ScriptedLayer;
pub use translation::{ReclaimWork, SsdTranslation};

/// A disk with the data of `D` and the timing of a flash SSD.
pub type SsdDisk<D> = SimDisk<D, Ssd>;

impl<D: Disk> SimDisk<D, Ssd> {
    /// `inner` with the timing of `profile`. `seed` chooses by how much each page's time differs from the mean.
    pub fn new(inner: D, profile: &SsdProfile, clock: impl Clock + 'static, seed: u64) -> Self {
        Self::with_model(inner, Ssd::new(profile, None, seed), clock)
    }

    /// `inner` with the timing of `profile` and of the work that `layer` does for each program (SS6).
    pub fn aged(
        inner: D,
        profile: &SsdProfile,
        layer: impl SsdTranslation + 'static,
        clock: impl Clock + 'static,
        seed: u64,
    ) -> Self {
        Self::with_model(inner, Ssd::new(profile, Some(Box::new(layer)), seed), clock)
    }
}

/// What happens in an SSD.
pub enum SsdEvent {
    /// The controller has understood a request, and its data is coming.
    Ready(SimJob),
    /// A channel has read or programmed a page.
    Done(usize),
}

/// The model of an SSD.
pub struct Ssd {
    profile: SsdProfile,
    controller_free_ns: u64,
    link_free_ns: u64,
    /// The time at which the last trim so far ends.
    trims_end_ns: u64,
    channels: Vec<FlashChannel>,
    layer: Option<Box<dyn SsdTranslation>>,
    /// The channel of the layer's next copy or erase.
    reclaim_channel: usize,
    /// Pages of the cache that wait to be programmed.
    dirty: HashSet<u64>,
    /// Pages of the cache that are taken, by what is being programmed too.
    held_pages: u64,
    /// Pages that each request still waits for.
    left: HashMap<SimTicket, usize>,
    /// Writes that enter the cache when it has room.
    filling: VecDeque<Filling>,
    flushes: Vec<Flush>,
    /// Numbers pages in the order in which they came into the cache.
    order: u64,
    random: u64,
}

struct Filling {
    job: SimJob,
    pages: Range<u64>,
}

struct Flush {
    ticket: SimTicket,
    /// It covers the pages numbered below.
    below: u64,
    left_pages: u64,
}

impl Ssd {
    fn new(profile: &SsdProfile, layer: Option<Box<dyn SsdTranslation>>, seed: u64) -> Self {
        Self {
            profile: profile.clone(),
            controller_free_ns: 0,
            link_free_ns: 0,
            trims_end_ns: 0,
            channels: (0..profile.channels.max(1)).map(|_| FlashChannel::default()).collect(),
            layer,
            reclaim_channel: 0,
            dirty: HashSet::new(),
            held_pages: 0,
            left: HashMap::new(),
            filling: VecDeque::new(),
            flushes: Vec::new(),
            order: 0,
            random: seed,
        }
    }

    fn send(&mut self, bytes: u64, from_ns: u64) -> u64 {
        let took_ns = u128::from(bytes) * 1_000_000_000 / u128::from(self.profile.link_bytes_per_s.max(1));
        self.link_free_ns = self.link_free_ns.max(from_ns) + took_ns as u64;
        self.link_free_ns
    }

    fn pages(&self, job: SimJob) -> Range<u64> {
        let page_bytes = u64::from(self.profile.page_bytes.max(1));
        job.span.at / page_bytes..(job.span.at + job.span.len).div_ceil(page_bytes)
    }

    /// `mean_ns`, more or less by a part that follows from the seed (splitmix64, by Steele, Lea and Flood).
    fn vary(&mut self, mean_ns: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let swing_ns = mean_ns * u64::from(self.profile.variation_percent.min(100)) / 100;
        mean_ns - swing_ns + mixed % (2 * swing_ns + 1)
    }

    fn ready(&mut self, job: SimJob, agenda: &mut Agenda<SsdEvent>) {
        match job.work {
            SimWork::Read => self.start_read(job, agenda),
            SimWork::Write(access) => self.start_write(job, access, agenda),
            SimWork::Zero(how) if how.keep_space => self.start_write(job, how.access, agenda),
            SimWork::Flush if self.profile.cache.is_volatile() => self.start_flush(job.ticket, agenda),
            SimWork::Zero(_) | SimWork::Trim => self.start_trim(job, agenda),
            SimWork::Flush => agenda.finish(job.ticket, agenda.now_ns()),
        }
    }

    fn start_read(&mut self, job: SimJob, agenda: &mut Agenda<SsdEvent>) {
        let missing: Vec<u64> = self.pages(job).filter(|page| !self.dirty.contains(page)).collect();
        if missing.is_empty() {
            let sent_ns = self.send(job.span.len, agenda.now_ns());
            return agenda.finish(job.ticket, sent_ns);
        }
        self.left.insert(job.ticket, missing.len());
        let bytes = job.span.len / missing.len() as u64;
        for page in missing {
            if let Some(layer) = &mut self.layer {
                layer.read(page);
            }
            self.enqueue(page, PagePurpose::Read { ticket: job.ticket, bytes }, agenda);
        }
    }

    fn start_write(&mut self, job: SimJob, access: Access, agenda: &mut Agenda<SsdEvent>) {
        let pages = self.pages(job);
        let is_cached = match self.profile.cache {
            WriteCache::Off => false,
            WriteCache::Volatile(_) => access == Access::Cached,
            WriteCache::Protected(_) => true,
        };
        if is_cached {
            self.filling.push_back(Filling { job, pages });
            return self.fill_cache(agenda);
        }
        if pages.is_empty() {
            return agenda.finish(job.ticket, job.sent_ns);
        }
        self.left.insert(job.ticket, pages.clone().count());
        for page in pages {
            self.program(page, PagePurpose::Write { ticket: job.ticket, sent_ns: job.sent_ns }, agenda);
        }
    }

    /// SS5, SS7.
    fn start_trim(&mut self, job: SimJob, agenda: &mut Agenda<SsdEvent>) {
        let block_bytes = u64::from(self.profile.block_bytes.max(1));
        let blocks = (job.span.at + job.span.len).div_ceil(block_bytes) - job.span.at / block_bytes;
        let begin_ns = self.trims_end_ns.max(agenda.now_ns());
        let begin_ns = if planted!("disk: trims are served side by side") { agenda.now_ns() } else { begin_ns };
        self.trims_end_ns = begin_ns + self.profile.trim_ns + blocks * self.profile.trim_block_ns;
        agenda.finish(job.ticket, self.trims_end_ns);
        let page_bytes = u64::from(self.profile.page_bytes.max(1));
        let whole = job.span.at.div_ceil(page_bytes)..(job.span.at + job.span.len) / page_bytes;
        let whole = if planted!("disk: trim drops a page of which it covers a part") { self.pages(job) } else { whole };
        let Some(layer) = self.layer.as_mut().filter(|_| !planted!("disk: trim does not reach the layer")) else {
            return;
        };
        for page in whole {
            layer.trim(page);
            // The next write of the page is new content for the layer.
            if !planted!("disk: write behind a trim replaces the trimmed page") {
                self.dirty.remove(&page);
            }
        }
    }

    fn start_flush(&mut self, ticket: SimTicket, agenda: &mut Agenda<SsdEvent>) {
        if self.held_pages == 0 {
            return agenda.finish(ticket, agenda.now_ns() + self.profile.flush_ns);
        }
        self.flushes.push(Flush { ticket, below: self.order, left_pages: self.held_pages });
    }

    /// Takes pages into the cache, in order, while it has room.
    fn fill_cache(&mut self, agenda: &mut Agenda<SsdEvent>) {
        let room_pages = (self.profile.cache.capacity_bytes() / u64::from(self.profile.page_bytes.max(1))).max(1);
        while let Some(Filling { job, mut pages }) = self.filling.pop_front() {
            while let Some(page) = pages.clone().next() {
                if !self.dirty.contains(&page) && self.held_pages >= room_pages {
                    return self.filling.push_front(Filling { job, pages });
                }
                self.hold(page, agenda);
                pages.start += 1;
            }
            agenda.finish(job.ticket, job.sent_ns);
        }
    }

    /// SS4.
    fn hold(&mut self, page: u64, agenda: &mut Agenda<SsdEvent>) {
        let is_new = self.dirty.insert(page);
        let is_new = is_new || planted!("disk: rewritten page is programmed for each write");
        if is_new {
            self.held_pages += 1;
            self.program(page, PagePurpose::Destage { order: self.order }, agenda);
            self.order += 1;
        }
    }

    /// Queues a program of `page` behind the work of the translation layer (SS6).
    fn program(&mut self, page: u64, purpose: PagePurpose, agenda: &mut Agenda<SsdEvent>) {
        let work = self.layer.as_mut().map_or(ReclaimWork::default(), |layer| layer.program(page));
        let is_awaited = matches!(purpose, PagePurpose::Write { .. });
        let copy_ns = self.profile.read_ns + self.profile.program_ns;
        let copy_ns = if planted!("disk: copy takes only a program") { self.profile.program_ns } else { copy_ns };
        let erases = if planted!("disk: erase takes no time") { 0 } else { work.erases };
        let copies = iter::repeat_n(copy_ns, work.copied_pages as usize);
        for mean_ns in copies.chain(iter::repeat_n(self.profile.erase_ns, erases as usize)) {
            let channel = self.reclaim_channel;
            let channel = if planted!("disk: all reclaim work is in one channel") { 0 } else { channel };
            self.reclaim_channel = (channel + 1) % self.channels.len();
            self.channels[channel].enqueue(PageWork { page, purpose: PagePurpose::Reclaim { mean_ns, is_awaited } });
            self.kick(channel, agenda);
        }
        self.enqueue(page, purpose, agenda);
    }

    fn enqueue(&mut self, page: u64, purpose: PagePurpose, agenda: &mut Agenda<SsdEvent>) {
        let channel = (page % self.channels.len() as u64) as usize;
        let channel = if planted!("disk: all pages are in one channel") { 0 } else { channel };
        self.channels[channel].enqueue(PageWork { page, purpose });
        self.kick(channel, agenda);
    }

    /// Gives an idle channel its next page (SS1).
    fn kick(&mut self, channel: usize, agenda: &mut Agenda<SsdEvent>) {
        let presses = !self.flushes.is_empty() || !self.filling.is_empty();
        let Some(work) = self.channels[channel].start(presses) else { return };
        let mean_ns = match work.purpose {
            PagePurpose::Read { .. } => self.profile.read_ns,
            PagePurpose::Write { .. } => self.profile.program_ns,
            PagePurpose::Destage { .. } => {
                self.dirty.remove(&work.page);
                self.profile.program_ns
            }
            PagePurpose::Reclaim { mean_ns, .. } => mean_ns,
        };
        let took_ns = self.vary(mean_ns);
        agenda.plan(agenda.now_ns() + took_ns, SsdEvent::Done(channel));
    }

    fn done(&mut self, channel: usize, agenda: &mut Agenda<SsdEvent>) {
        match self.channels[channel].end().map(|work| work.purpose) {
            Some(PagePurpose::Read { ticket, bytes }) => {
                let sent_ns = self.send(bytes, agenda.now_ns());
                self.end_page(ticket, sent_ns, agenda);
            }
            Some(PagePurpose::Write { ticket, sent_ns }) => self.end_page(ticket, sent_ns, agenda),
            Some(PagePurpose::Destage { order }) => {
                self.held_pages -= 1;
                self.end_flushes(order, agenda);
                self.fill_cache(agenda);
            }
            Some(PagePurpose::Reclaim { .. }) | None => {}
        }
        self.kick(channel, agenda);
    }

    fn end_page(&mut self, ticket: SimTicket, at_ns: u64, agenda: &mut Agenda<SsdEvent>) {
        let Some(left) = self.left.get_mut(&ticket) else { return };
        *left -= 1;
        if *left == 0 {
            self.left.remove(&ticket);
            agenda.finish(ticket, at_ns);
        }
    }

    /// SS3: the page numbered `order` is programmed.
    fn end_flushes(&mut self, order: u64, agenda: &mut Agenda<SsdEvent>) {
        let end_ns = agenda.now_ns() + self.profile.flush_ns;
        self.flushes.retain_mut(|flush| {
            let counts = order < flush.below;
            let counts = counts || planted!("disk: flush counts pages of later writes");
            flush.left_pages -= u64::from(counts);
            if flush.left_pages == 0 {
                agenda.finish(flush.ticket, end_ns);
            }
            flush.left_pages > 0
        });
    }
}

impl DriveModel for Ssd {
    type Event = SsdEvent;

    fn arrive(&mut self, job: SimJob, agenda: &mut Agenda<SsdEvent>) {
        self.controller_free_ns = self.controller_free_ns.max(agenda.now_ns()) + self.profile.command_ns;
        let understood_ns = self.controller_free_ns;
        let understood_ns = if planted!("disk: requests pass the controller in parallel") {
            agenda.now_ns() + self.profile.command_ns
        } else {
            understood_ns
        };
        let sent_ns = if matches!(job.work, SimWork::Write(_)) { self.send(job.span.len, understood_ns) } else { 0 };
        agenda.plan(understood_ns, SsdEvent::Ready(SimJob { sent_ns, ..job }));
    }

    fn happen(&mut self, event: SsdEvent, agenda: &mut Agenda<SsdEvent>) {
        match event {
            SsdEvent::Ready(job) => self.ready(job, agenda),
            SsdEvent::Done(channel) => self.done(channel, agenda),
        }
    }

    fn geometry(&self, inner: Geometry) -> Geometry {
        let volatile_cache = inner.volatile_cache || self.profile.cache.is_volatile();
        Geometry { volatile_cache, trim: inner.trim || self.layer.is_some(), ..inner }
    }
}
