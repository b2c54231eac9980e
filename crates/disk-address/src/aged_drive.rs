//! SSDs that were in use before they are opened, by their settings in an address.

use std::str::FromStr;
use std::sync::Arc;

use ferrite_disk::{Disk, SsdDisk, SsdProfile};
use ferrite_sim::ftl::{AgedFlash, DriveSpec, FillOrder, FlashFill, FlashShape, FlashTiming, FtlScheme, VictimChoice};

use crate::HostClock;
use crate::drive_model::{EXTRA_BLOCKS_MIN, OVER_PROVISION_PERCENT, SEED};
use crate::error::{AddressError, Result};

/// The settings of an aged drive in an address, for help texts.
pub const AGED_DRIVE_GRAMMAR: &str = "\
SETTINGS    SETTING[,SETTING]...
SETTING     filled=PERCENT           the part of the drive that has content, from its start (100)
            order=random|sequential  the last writes: single pages at random, or none (random)
            spare=PERCENT            the flash beyond what the host sees (10)
            ftl=page|fast            the translation layer: page level, or FAST (page)
A trim frees its space. Example: ssd-x25e@filled=90,spare=7:image";

/// An SSD with a translation layer and content, as `ssd-x25e@filled=90:` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgedDrive {
    /// The name of the drive's profile.
    pub name: &'static str,
    /// The speed of the drive.
    pub profile: SsdProfile,
    /// The translation scheme.
    pub scheme: FtlScheme,
    /// The content at the opening.
    pub fill: FlashFill,
    /// The blocks beyond those that the host sees, in per cent of them.
    pub spare_percent: u32,
}

impl AgedDrive {
    /// Parses the `settings` behind `name@`.
    ///
    /// # Errors
    /// [`AddressError::AgedDrive`].
    pub(crate) fn parse(name: &'static str, profile: SsdProfile, settings: &str) -> Result<Self> {
        let mut drive = Self {
            name,
            profile,
            scheme: FtlScheme::Page(VictimChoice::Greedy),
            fill: FlashFill { percent: 100, order: FillOrder::Random },
            spare_percent: OVER_PROVISION_PERCENT,
        };
        settings
            .split(',')
            .try_for_each(|setting| drive.set(setting).ok_or(setting))
            .map_err(|setting| AddressError::AgedDrive { name, setting: setting.into() })?;
        Ok(drive)
    }

    /// Changes one setting. Returns `None` if there is no such setting.
    fn set(&mut self, setting: &str) -> Option<()> {
        match setting.split_once('=')? {
            ("filled", percent) => self.fill.percent = percentage(percent)?,
            ("spare", percent) => self.spare_percent = percentage(percent)?,
            ("order", "random") => self.fill.order = FillOrder::Random,
            ("order", "sequential") => self.fill.order = FillOrder::Sequential,
            ("ftl", "page") => self.scheme = FtlScheme::Page(VictimChoice::Greedy),
            ("ftl", "fast") => self.scheme = FtlScheme::Fast { log_blocks: None },
            _ => return None,
        }
        Some(())
    }

    /// Returns `disk` as this drive, and the flash that counts its copies and erases.
    ///
    /// # Errors
    /// [`AddressError::Flash`] if there is no such drive of the disk's size.
    pub(crate) fn open(&self, disk: Arc<dyn Disk>) -> Result<(Arc<dyn Disk>, AgedFlash)> {
        let SsdProfile { page_bytes, block_bytes, read_ns, program_ns, erase_ns, .. } = self.profile;
        let like = FlashShape { logical_blocks: 0, extra_blocks: 0, block_pages: block_bytes / page_bytes, page_bytes };
        let flash = FlashShape::of_bytes(disk.geometry().size, self.spare_percent.into(), like).and_then(|shape| {
            let shape = FlashShape { extra_blocks: shape.extra_blocks.max(EXTRA_BLOCKS_MIN), ..shape };
            let timing = FlashTiming { read_ns, program_ns, erase_ns };
            AgedFlash::new(DriveSpec { scheme: self.scheme, shape, timing }, self.fill, SEED)
        });
        let flash = flash.map_err(|source| AddressError::Flash { name: self.name, source })?;
        Ok((Arc::new(SsdDisk::aged(disk, &self.profile, flash.clone(), HostClock::new(), SEED)), flash))
    }
}

/// Returns a whole percentage.
fn percentage(text: &str) -> Option<u32> {
    u32::from_str(text).ok().filter(|percent| *percent <= 100)
}

#[cfg(test)]
mod tests;
