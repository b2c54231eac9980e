//! A flash memory with its translation layer, as its host sees it, and the figures of its life.

use super::LayerFault;
use super::version_ledger::VersionLedger;
use super::{Flash, FlashCounts, FlashFigures, FlashShape, FlashTiming, HostPage, Translation, WriteLatency};
use crate::{Error, Result};

/// Host writes between two checks of every page: a check costs about as much as half a million writes.
const CHECK_EVERY: u64 = 1 << 25;

/// Pages that are prefilled between two calls of `goes_on`.
const ASK_EVERY: u32 = 4096;

/// A simulated flash drive.
pub struct FlashDrive<T> {
    flash: Flash,
    layer: T,
    ledger: VersionLedger,
    timing: FlashTiming,
    /// The latencies of the writes that made the host wait for more than their own page.
    slow: WriteLatency,
    host: HostCounts,
}

/// The requests of the host, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HostCounts {
    pub(super) writes: u64,
    pub(super) reads: u64,
    pub(super) trims: u64,
    slow_writes: u64,
}

impl<T: Translation> FlashDrive<T> {
    /// Returns a drive of `shape` that was never written, whose translation layer is `layer`.
    ///
    /// # Errors
    /// The shape describes no drive.
    pub fn new(shape: FlashShape, layer: T, timing: FlashTiming) -> Result<Self> {
        let shape = shape.check()?;
        Ok(Self {
            flash: Flash::new(shape),
            layer,
            ledger: VersionLedger::new(shape.host_pages()),
            timing,
            slow: WriteLatency::default(),
            host: HostCounts::default(),
        })
    }

    /// Returns the shape.
    pub fn shape(&self) -> FlashShape {
        self.flash.shape()
    }

    /// Returns the translation layer.
    pub fn layer(&self) -> &T {
        &self.layer
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> FlashCounts {
        self.flash.counts
    }

    /// Returns how often each block was erased.
    pub fn erases(&self) -> &[u32] {
        self.flash.erases()
    }

    /// Writes every page once, in order, and resets the counts.
    ///
    /// # Errors
    /// [`Error::Lost`], as for [`FlashDrive::write`].
    pub fn prefill(&mut self) -> Result<()> {
        self.prefill_while(&mut |_| true).map(drop)
    }

    /// Prefills while `goes_on`, which is called every few thousand pages with the number of written pages, returns
    /// true. Returns true if all pages are written.
    ///
    /// # Errors
    /// The errors of [`FlashDrive::prefill`].
    pub fn prefill_while(&mut self, goes_on: &mut dyn FnMut(u32) -> bool) -> Result<bool> {
        for page in 0..self.ledger.pages() {
            if page.is_multiple_of(ASK_EVERY) && !goes_on(page) {
                return Ok(false);
            }
            self.write(HostPage(page))?;
        }
        self.reset_counts();
        Ok(true)
    }

    /// Resets the counts of operations and the latencies. The erases of each block stay.
    pub(super) fn reset_counts(&mut self) {
        self.flash.counts = FlashCounts::default();
        self.slow = WriteLatency::default();
        self.host = HostCounts::default();
    }

    /// Writes `page` for the host.
    ///
    /// # Errors
    /// [`Error::Beyond`]; and [`Error::Lost`] if an occasional check finds a page at a wrong place.
    pub fn write(&mut self, page: HostPage) -> Result<()> {
        self.known(page)?;
        self.flash.version = self.ledger.write(page);
        let before = self.flash.counts;
        self.layer.write(page, &mut self.flash);
        self.host.writes += 1;
        let FlashCounts { copied_pages, erases, .. } = self.flash.counts;
        let (copied, erased) = (copied_pages - before.copied_pages, erases - before.erases);
        if copied + erased > 0 {
            let FlashTiming { read_ns, program_ns, erase_ns } = self.timing;
            self.host.slow_writes += 1;
            self.slow.add(program_ns + copied * (read_ns + program_ns) + erased * erase_ns, 1);
        }
        if self.host.writes.is_multiple_of(CHECK_EVERY) { self.verify() } else { Ok(()) }
    }

    /// Prefetches the state of `page`, which the host will write soon, if it exists. For speed alone.
    pub fn foresee(&self, page: HostPage) {
        self.ledger.foresee(page);
        self.layer.foresee(page);
    }

    /// Reads `page` for the host, and checks that it is where the layer says.
    ///
    /// # Errors
    /// [`Error::Beyond`] and [`Error::Lost`].
    pub fn read(&mut self, page: HostPage) -> Result<()> {
        self.known(page)?;
        self.host.reads += 1;
        self.ledger.check(page, &self.layer, &self.flash).map_err(Error::Lost)
    }

    /// Drops the content of `page`, which the host needs no more.
    ///
    /// # Errors
    /// [`Error::Beyond`].
    pub fn trim(&mut self, page: HostPage) -> Result<()> {
        self.known(page)?;
        self.host.trims += 1;
        self.ledger.trim(page);
        self.layer.trim(page, &mut self.flash);
        Ok(())
    }

    fn known(&self, page: HostPage) -> Result<()> {
        let pages = self.ledger.pages();
        if page.0 < pages { Ok(()) } else { Err(Error::Beyond { page: page.0.into(), pages }) }
    }

    /// Checks that the newest version of every page is where the layer says, and that no page was programmed twice
    /// (TL1, TL2).
    ///
    /// # Errors
    /// [`Error::Lost`] with the first fault.
    pub fn verify(&self) -> Result<()> {
        if let Some(at) = self.flash.overwritten() {
            return Err(Error::Lost(LayerFault::Overwritten(at)));
        }
        let check = |page| self.ledger.check(HostPage(page), &self.layer, &self.flash).map_err(Error::Lost);
        (0..self.ledger.pages()).try_for_each(check)
    }

    /// Returns the figures, after checking every page.
    ///
    /// # Errors
    /// The errors of [`FlashDrive::verify`].
    pub fn figures(&self) -> Result<FlashFigures> {
        self.verify()?;
        let mut latency = self.slow.clone();
        latency.add(self.timing.program_ns, self.host.writes - self.host.slow_writes);
        Ok(FlashFigures::new(self.host, &self.flash, &latency))
    }
}
