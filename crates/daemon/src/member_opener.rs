//! The members of caches and the disks of guests, by their addresses.

use std::fs::File;
use std::sync::Arc;

use ferrite_cache::MemberOpener;
use ferrite_disk::Disk;
use ferrite_disk_address::{DiskAddress, DiskPlace, ModeledDisk, open_member_file, open_nbd};
use ferrite_memory::{Claim, Survival, Survives, file_survival};

/// Opens files, block devices and NBD exports, also behind simulated drives.
pub(crate) struct AddressOpener;

impl MemberOpener for AddressOpener {
    fn open(&self, address: &str) -> Result<Arc<dyn Disk>, String> {
        let address = DiskAddress::parse(address).map_err(|error| error.to_string())?;
        let opened = match &address.place {
            DiskPlace::Nbd(uri) => open_nbd(uri, false),
            DiskPlace::File(path) => open_member_file(path, false),
            DiskPlace::InPool { pool, name } => {
                return Err(format!(
                    "{address} is a disk in a pool, and caches and guests are made of files, block devices and NBD exports: \
                     `ferrite disk serve {} {name}` serves it by NBD, if it lies in another pool",
                    pool.display()
                ));
            }
        };
        let modeled = opened.and_then(|disk| address.with_models(disk));
        modeled.map(|ModeledDisk { disk, .. }| disk).map_err(|error| error.to_string())
    }

    fn survival(&self, address: &str) -> Survival {
        let not_known = |why: String| Survival {
            process_crash: Claim::new(Survives::Yes, "it lies outside of the process"),
            kernel_crash: Claim::new(Survives::NotKnown, why.clone()),
            power_loss: Claim::new(Survives::NotKnown, why),
        };
        match DiskAddress::parse(address).map(|address| address.place) {
            Ok(DiskPlace::File(path)) => match File::open(&path) {
                Ok(file) => file_survival(&file),
                Err(error) => not_known(format!("{} cannot be opened: {error}", path.display())),
            },
            Ok(DiskPlace::Nbd(uri)) => not_known(format!("the server of {uri} decides")),
            Ok(DiskPlace::InPool { .. }) | Err(_) => not_known(format!("{address} is no SSD")),
        }
    }
}

#[cfg(test)]
mod tests;
