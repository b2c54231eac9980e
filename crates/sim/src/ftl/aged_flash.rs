//! A flash drive that was in use before its host opened it: the translation layer of a simulated SSD
//! ([`ferrite_disk::SsdDisk::aged`]).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferrite_disk::{ReclaimWork, SsdTranslation};

use super::drive_spec::AnyLayer;
use super::{DriveSpec, FlashCounts, FlashDrive, FlashFigures, FlashShape, HostPage};
use crate::split_mix::SplitMix;
use crate::{Error, Result};

/// The order in which an aged drive was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FillOrder {
    /// Once, from the first page on.
    Sequential,
    /// As [`FillOrder::Sequential`], and then as many single pages at random as the flash has. Further writes at random
    /// change the write amplification of either scheme by less than 5 %.
    #[default]
    Random,
}

/// The use of a drive before its host opens it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashFill {
    /// The part of the host's pages that have content, the first pages of the drive, in per cent.
    pub percent: u32,
    /// The order of the writes.
    pub order: FillOrder,
}

/// A drive that was in use. Clones are one drive: an SSD owns one, and the other one reports figures.
#[derive(Clone)]
pub struct AgedFlash(Arc<Mutex<AgedState>>);

struct AgedState {
    drive: FlashDrive<AnyLayer>,
    /// The first fault of the layer.
    fault: Option<Error>,
}

impl AgedFlash {
    /// Returns the drive of `spec` behind the writes of `fill` (TL5).
    ///
    /// # Errors
    /// The description is of no possible drive; the layer loses a page.
    pub fn new(spec: DriveSpec, fill: FlashFill, seed: u64) -> Result<Self> {
        let mut drive = spec.build()?;
        let shape = drive.shape();
        let filled = u64::from(shape.host_pages()) * u64::from(fill.percent.min(100)) / 100;
        for page in 0..filled {
            drive.write(HostPage(page as u32))?;
        }
        if fill.order == FillOrder::Random && filled > 0 {
            let mut random = SplitMix(seed);
            for _ in 0..shape.flash_pages() {
                drive.write(HostPage(random.below(filled) as u32))?;
            }
        }
        drive.reset_counts();
        Ok(Self(Arc::new(Mutex::new(AgedState { drive, fault: None }))))
    }

    fn lock(&self) -> MutexGuard<'_, AgedState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the size of the drive.
    pub fn shape(&self) -> FlashShape {
        self.lock().drive.shape()
    }

    /// Returns the figures since the opening, after checking every page.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub fn figures(&self) -> Result<FlashFigures> {
        let mut state = self.lock();
        state.fault.take().map_or(Ok(()), Err)?;
        state.drive.figures()
    }
}

impl AgedState {
    /// Applies a request of `page`. A page behind the end of the drive, of a disk that grew, costs nothing.
    fn apply(&mut self, page: u64, request: fn(&mut FlashDrive<AnyLayer>, HostPage) -> Result<()>) {
        if page < self.drive.shape().host_pages().into()
            && let Err(fault) = request(&mut self.drive, HostPage(page as u32))
        {
            self.fault.get_or_insert(fault);
        }
    }
}

impl SsdTranslation for AgedFlash {
    fn program(&mut self, page: u64) -> ReclaimWork {
        let mut state = self.lock();
        let before = state.drive.counts();
        state.apply(page, FlashDrive::write);
        let FlashCounts { copied_pages, erases, .. } = state.drive.counts();
        ReclaimWork { copied_pages: copied_pages - before.copied_pages, erases: erases - before.erases }
    }

    fn trim(&mut self, page: u64) {
        self.lock().apply(page, FlashDrive::trim);
    }

    fn read(&mut self, page: u64) {
        self.lock().apply(page, FlashDrive::read);
    }
}
