//! A load as a program runs it: steps on files in a region.
//!
//! ```text
//!   0 files, each with room for appends   the log   size - 4 KiB: the number of the last step
//! ```
//!
//! The first word of each page of a file names the file, so a read finds out if another page is shown.

use std::time::{Duration, Instant};

use super::program_region::ProgramRegion;
use super::region_load::{LoadShape, RegionLoad};
use super::region_order::RegionFigures;
use super::store_pace::spin;
use crate::bench_random::BenchRandom;
use crate::zipf_blocks::ZipfBlocks;
use crate::{Error, Result};

const PAGE: u64 = 4096;
/// The part of a region that is the log of a web server.
const LOG_PART: u64 = 16;
/// Bytes of a record of `dbench`.
const RECORD_BYTES: u64 = 16 << 10;
/// Files that a web server reads before it appends to its log.
const PAGES_SERVED: u64 = 10;
/// Files of `dbench` between two syncs.
const SYNC_EVERY: u64 = 8;
/// Loads that call no sync have one behind so many stored bytes, as a file system writes its log now and then.
const SYNC_BYTES: u64 = 8 << 20;
/// Bytes at the begin of a region that updates change.
const UPDATE_BYTES: u64 = 8 << 20;
/// Updates between two looks at the clock.
const UPDATES: u64 = 4;

/// A load, and the state of its program.
pub struct ProgramLoad {
    shape: LoadShape,
    files: u64,
    log_at: u64,
    log_end: u64,
    size: u64,
    choices: ZipfBlocks,
    buffer: Vec<u8>,
    steps: u64,
    appended_bytes: u64,
    unsynced_bytes: u64,
}

impl ProgramLoad {
    /// The load of `shape` in a region of `size` bytes.
    ///
    /// # Errors
    /// [`Error::Server`] if not one file fits.
    pub fn new(shape: LoadShape, size: u64) -> Result<Self> {
        let log_end = size.saturating_sub(PAGE);
        let touched = shape.touched_bytes.unwrap_or(log_end).min(log_end);
        let has_log = shape.kind == RegionLoad::WebServer;
        let log_bytes = if has_log { (touched / LOG_PART).next_multiple_of(shape.kind.file_bytes()) } else { 0 };
        let slot = shape.kind.file_bytes() + shape.kind.append_bytes();
        let files = touched.saturating_sub(log_bytes) / slot;
        if files == 0 {
            return Err(Error::server("the load", format!("a region of {size} bytes has no room for a file")));
        }
        let choices = ZipfBlocks::new(files as u32, shape.theta_percent as f64 / 100.0, 11);
        let buffer = vec![7; slot as usize];
        let log_at = log_end - log_bytes;
        let state = (0, 0, 0);
        let (steps, appended_bytes, unsynced_bytes) = state;
        Ok(Self { shape, files, log_at, log_end, size, choices, buffer, steps, appended_bytes, unsynced_bytes })
    }

    /// Writes each file once, without computing.
    ///
    /// # Errors
    /// The errors of the region.
    pub fn fill(&mut self, region: &ProgramRegion) -> Result<RegionFigures> {
        let own_nanos = std::mem::take(&mut self.shape.own_nanos);
        let (begun, mut figures) = (Instant::now(), RegionFigures::default());
        for file in 0..self.files {
            self.write_part(region, file, 0, self.shape.kind.file_bytes(), &mut figures)?;
            self.end_step(region, &mut figures)?;
        }
        self.sync(region)?;
        self.shape.own_nanos = own_nanos;
        figures.nanos = begun.elapsed().as_nanos() as u64;
        Ok(figures)
    }

    /// Runs steps for `nanos` at least. All that they stored is durable on return.
    ///
    /// # Errors
    /// The errors of the region; [`Error::Server`] if a read returns wrong data.
    pub fn run(&mut self, region: &ProgramRegion, nanos: u64, seed: u64) -> Result<RegionFigures> {
        let mut random = BenchRandom::new(seed);
        let (begun, mut figures) = (Instant::now(), RegionFigures::default());
        // A program that was killed goes on behind the last step that the region has.
        self.steps = self.last_step(region)?.max(self.steps);
        while begun.elapsed() < Duration::from_nanos(nanos) {
            self.step(region, &mut random, &mut figures)?;
            self.end_step(region, &mut figures)?;
        }
        self.sync(region)?;
        figures.nanos = begun.elapsed().as_nanos() as u64;
        Ok(figures)
    }

    /// Makes 4 KiB at a time durable, at random pages, for `nanos` at least.
    ///
    /// # Errors
    /// The errors of the region.
    pub fn update(&mut self, region: &ProgramRegion, nanos: u64) -> Result<RegionFigures> {
        let (mut random, pages) = (BenchRandom::new(self.steps), self.size.min(UPDATE_BYTES) / PAGE);
        let (begun, mut figures) = (Instant::now(), RegionFigures::default());
        while begun.elapsed() < Duration::from_nanos(nanos) {
            for _ in 0..UPDATES {
                region.store(random.below(pages) * PAGE, &self.buffer[..PAGE as usize])?;
                region.sync()?;
            }
            figures.steps += UPDATES;
        }
        figures.nanos = begun.elapsed().as_nanos() as u64;
        figures.stored_bytes = figures.steps * PAGE;
        figures.moved_bytes = figures.stored_bytes;
        self.steps += figures.steps;
        Ok(figures)
    }

    /// Returns the number of the last step in the region, or 0 without steps.
    ///
    /// # Errors
    /// None; a fault waits.
    pub fn last_step(&self, region: &ProgramRegion) -> Result<u64> {
        let mut word = [0; 8];
        region.load(self.log_end, &mut word);
        Ok(u64::from_le_bytes(word))
    }

    fn step(&mut self, region: &ProgramRegion, random: &mut BenchRandom, figures: &mut RegionFigures) -> Result<()> {
        let whole = self.shape.kind.file_bytes();
        match self.shape.kind {
            RegionLoad::FileServer => {
                let [written, longer, read] = [0; 3].map(|_: u64| u64::from(self.choices.draw(random)));
                self.write_part(region, written, 0, whole, figures)?;
                self.write_part(region, longer, whole, self.shape.kind.append_bytes(), figures)?;
                self.read_part(region, read, 0, whole, figures)
            }
            RegionLoad::WebServer => {
                for _ in 0..PAGES_SERVED {
                    let file = u64::from(self.choices.draw(random));
                    self.read_part(region, file, 0, whole, figures)?;
                }
                let at = self.log_at + self.appended_bytes % (self.log_end - self.log_at);
                self.appended_bytes += whole;
                self.store(region, at, whole, figures)
            }
            RegionLoad::VarMail => {
                let [created, longer, read] = [0; 3].map(|_: u64| u64::from(self.choices.draw(random)));
                self.write_part(region, created, 0, whole, figures)?;
                self.sync(region)?;
                self.read_part(region, longer, 0, whole, figures)?;
                self.write_part(region, longer, whole, self.shape.kind.append_bytes(), figures)?;
                self.sync(region)?;
                self.read_part(region, read, 0, whole, figures)
            }
            RegionLoad::Dbench => {
                let [written, read] = [0; 2].map(|_: u64| u64::from(self.choices.draw(random)));
                for at in (0..whole).step_by(RECORD_BYTES as usize) {
                    self.write_part(region, written, at, RECORD_BYTES, figures)?;
                    self.read_part(region, read, at, RECORD_BYTES, figures)?;
                }
                if self.steps.is_multiple_of(SYNC_EVERY) { self.sync(region) } else { Ok(()) }
            }
            RegionLoad::Fwr => {
                let at = self.steps % self.files * whole;
                region.store_plain(at, &self.buffer[..whole as usize]);
                figures.moved_bytes += whole;
                figures.stored_bytes += whole;
                Ok(())
            }
        }
    }

    /// Ends a step: the region has its number, and a load without syncs has one now and then.
    fn end_step(&mut self, region: &ProgramRegion, figures: &mut RegionFigures) -> Result<()> {
        self.steps += 1;
        figures.steps += 1;
        if region.is_guest() && self.shape.kind != RegionLoad::Fwr {
            region.store(self.log_end, &self.steps.to_le_bytes())?;
        }
        if !self.shape.kind.syncs() && self.unsynced_bytes >= SYNC_BYTES {
            self.sync(region)?;
        }
        Ok(())
    }

    fn sync(&mut self, region: &ProgramRegion) -> Result<()> {
        self.unsynced_bytes = 0;
        region.sync()
    }

    fn slot(&self, file: u64) -> u64 {
        file * (self.shape.kind.file_bytes() + self.shape.kind.append_bytes())
    }

    /// Writes `bytes` of `file` from byte `at` on, and names the file in each page.
    fn write_part(
        &mut self,
        region: &ProgramRegion,
        file: u64,
        at: u64,
        bytes: u64,
        figures: &mut RegionFigures,
    ) -> Result<()> {
        for page in self.buffer[..bytes as usize].chunks_mut(PAGE as usize) {
            page[..8].copy_from_slice(&(file + 1).to_le_bytes());
        }
        self.store(region, self.slot(file) + at, bytes, figures)
    }

    fn store(&mut self, region: &ProgramRegion, at: u64, bytes: u64, figures: &mut RegionFigures) -> Result<()> {
        region.store(at, &self.buffer[..bytes as usize])?;
        figures.stored_bytes += bytes;
        self.unsynced_bytes += bytes;
        self.end_move(bytes, figures);
        Ok(())
    }

    /// Reads `bytes` of `file` from byte `at` on, and compares the name in each page.
    fn read_part(
        &mut self,
        region: &ProgramRegion,
        file: u64,
        at: u64,
        bytes: u64,
        figures: &mut RegionFigures,
    ) -> Result<()> {
        let read = &mut self.buffer[..bytes as usize];
        region.load(file * (self.shape.kind.file_bytes() + self.shape.kind.append_bytes()) + at, read);
        let is_right = |page: &[u8]| page[..8] == (file + 1).to_le_bytes();
        if !read.chunks(PAGE as usize).all(is_right) {
            return Err(Error::server("the region", format!("file {file} has wrong data at byte {at}")));
        }
        self.end_move(bytes, figures);
        Ok(())
    }

    /// Counts moved bytes, and computes for them.
    fn end_move(&self, bytes: u64, figures: &mut RegionFigures) {
        figures.moved_bytes += bytes;
        spin(self.shape.own_nanos * bytes / PAGE);
    }
}
