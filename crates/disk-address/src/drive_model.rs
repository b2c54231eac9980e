//! Drives to simulate over a disk, by their names in an address.

use std::sync::Arc;

use ferrite_disk::{Disk, FaultPlan, HddDisk, HddProfile, SsdDisk, SsdProfile};
use ferrite_sim::ftl::{AgedFlash, DriveSpec, FlashFigures, FlashShape, FlashTiming, FtlDisk, FtlScheme, VictimChoice};

use crate::HostClock;
use crate::aged_drive::AgedDrive;
use crate::error::{AddressError, Result};
use crate::faulty_disks::open_faulty;

/// The names of the drives.
pub(crate) const MODEL_NAMES: [&str; 9] =
    ["hdd-7200", "hdd-15000", "hdd-5400", "ssd-x25e", "ssd-sata", "ssd-nvme", "ssd-nvme-plp", PAGE_DRIVE, FAST_DRIVE];
const PAGE_DRIVE: &str = "ftl-page";
const FAST_DRIVE: &str = "ftl-fast";
const FAULTY: &str = "fault";

/// The default shape of `sim ftl`.
const LIKE: FlashShape = FlashShape { logical_blocks: 0, extra_blocks: 0, block_pages: 64, page_bytes: 4096 };
pub(crate) const OVER_PROVISION_PERCENT: u32 = 10;
/// The extra blocks of the smallest flash drive.
pub const EXTRA_BLOCKS_MIN: u32 = 8;
/// The seed of the times of a simulated drive, and of the content of an aged one.
pub(crate) const SEED: u64 = 1;

/// A drive to simulate over a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriveModel {
    /// The speed of a hard disk.
    Hdd(HddProfile),
    /// The speed of an SSD.
    Ssd(SsdProfile),
    /// The speed of an SSD that was in use, by `PROFILE@SETTINGS:`.
    Aged(AgedDrive),
    /// The copies and erases of a flash drive, at the speed of the disk below.
    Flash {
        /// The name in the address.
        name: &'static str,
        /// The translation scheme.
        scheme: FtlScheme,
    },
    /// The faults of a device, by `fault:PLAN:`.
    Faulty {
        /// The plan at the opening.
        plan: FaultPlan,
        /// The address behind the plan, by which [`crate::set_fault_plan`] finds the open disk.
        name: String,
    },
}

impl DriveModel {
    /// Returns the drive that an address begins with, and the address behind it.
    ///
    /// # Errors
    /// [`AddressError`] if nothing is behind the drive, or if the settings of an aged one or the plan of a faulty one are
    /// wrong.
    pub(crate) fn first_in(address: &str) -> Result<Option<(Self, &str)>> {
        let Some((first, behind)) = address.split_once(':') else { return Ok(None) };
        let (name, model, behind) = if first == FAULTY {
            let (plan, behind) = behind.split_once(':').ok_or(AddressError::NoFaultPlan)?;
            let plan = plan.parse().map_err(AddressError::FaultPlan)?;
            (FAULTY, Self::Faulty { plan, name: behind.into() }, behind)
        } else if let Some((drive, settings)) = first.split_once('@')
            && let Some((name, Self::Ssd(profile))) = Self::named(drive)
        {
            (name, Self::Aged(AgedDrive::parse(name, profile, settings)?), behind)
        } else {
            let Some((name, model)) = Self::named(first) else { return Ok(None) };
            (name, model, behind)
        };
        if behind.is_empty() { Err(AddressError::NoDisk(name)) } else { Ok(Some((model, behind))) }
    }

    /// Returns the drive called `name`, as in `name:FILE`, with its name.
    fn named(name: &str) -> Option<(&'static str, Self)> {
        let name = *MODEL_NAMES.iter().find(|known| **known == name)?;
        let flash = |scheme| Some(Self::Flash { name, scheme });
        let model = match name {
            PAGE_DRIVE => flash(FtlScheme::Page(VictimChoice::Greedy)),
            FAST_DRIVE => flash(FtlScheme::Fast { log_blocks: None }),
            _ => HddProfile::named(name).map(Self::Hdd).or_else(|| SsdProfile::named(name).map(Self::Ssd)),
        };
        model.map(|model| (name, model))
    }

    /// Returns true if `name` looks like the name of a drive.
    pub(crate) fn resembles(name: &str) -> bool {
        !name.contains('/') && ["hdd-", "ssd-", "ftl-"].iter().any(|kind| name.starts_with(kind))
    }
}

/// A disk behind the drives of its address.
pub struct ModeledDisk {
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// The flash drives that count, from the disk outwards.
    pub flash: Vec<CountedFlash>,
}

impl ModeledDisk {
    /// Adds the drive `model` before the disk.
    pub(crate) fn behind(mut self, model: &DriveModel) -> Result<Self> {
        self.disk = match model {
            DriveModel::Hdd(profile) => Arc::new(HddDisk::new(self.disk, profile, HostClock::new(), SEED)),
            DriveModel::Ssd(profile) => Arc::new(SsdDisk::new(self.disk, profile, HostClock::new(), SEED)),
            DriveModel::Aged(drive) => {
                let (disk, flash) = drive.open(self.disk)?;
                let shape = flash.shape();
                self.flash.push(CountedFlash { name: drive.name, shape, counter: FlashCounter::Aged(flash) });
                disk
            }
            DriveModel::Flash { name, scheme } => {
                let (disk, shape) =
                    open_ftl(*scheme, self.disk).map_err(|source| AddressError::Flash { name, source })?;
                self.flash.push(CountedFlash { name, shape, counter: FlashCounter::Ftl(disk.clone()) });
                disk
            }
            DriveModel::Faulty { plan, name } => open_faulty(self.disk, plan.clone(), name),
        };
        Ok(self)
    }
}

/// A simulated flash drive over another disk, which counts its copies and erases since it was opened.
pub struct CountedFlash {
    /// The name of the drive in the address.
    pub name: &'static str,
    /// The size of the drive.
    pub shape: FlashShape,
    counter: FlashCounter,
}

/// The counting part of a drive.
enum FlashCounter {
    Ftl(Arc<DynFtlDisk>),
    Aged(AgedFlash),
}

/// A disk of any kind behind a translation layer.
type DynFtlDisk = FtlDisk<Arc<dyn Disk>>;

/// Opens `disk` behind a translation layer, new and empty. Returns also the size of the flash.
fn open_ftl(scheme: FtlScheme, disk: Arc<dyn Disk>) -> ferrite_sim::Result<(Arc<DynFtlDisk>, FlashShape)> {
    let shape = FlashShape::of_bytes(disk.geometry().size, OVER_PROVISION_PERCENT.into(), LIKE)?;
    let shape = FlashShape { extra_blocks: shape.extra_blocks.max(EXTRA_BLOCKS_MIN), ..shape };
    let disk = FtlDisk::new(disk, DriveSpec { scheme, shape, timing: FlashTiming::default() })?;
    Ok((Arc::new(disk), shape))
}

impl CountedFlash {
    /// Returns the counts of the drive, after checking every page.
    ///
    /// # Errors
    /// [`ferrite_sim::Error::Lost`] if the drive lost the newest version of a page.
    pub fn figures(&self) -> ferrite_sim::Result<FlashFigures> {
        match &self.counter {
            FlashCounter::Ftl(disk) => disk.figures(),
            FlashCounter::Aged(flash) => flash.figures(),
        }
    }
}
