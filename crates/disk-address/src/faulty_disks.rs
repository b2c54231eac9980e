//! The disks behind `fault:PLAN:` that are open in this process. A caller changes their plans while they run.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ferrite_disk::{Disk, FaultDisk, FaultPlan};

use crate::error::{AddressError, Result};

/// A disk with faults over any disk.
type DynFaultDisk = FaultDisk<Arc<dyn Disk>>;

/// A faulty disk, and its name: the address behind `fault:PLAN:`.
struct NamedDisk<D> {
    name: String,
    disk: D,
}

/// The faulty disks of this process in the order of their opening. Disks that were closed may still be listed.
static OPENED: Mutex<Vec<NamedDisk<Weak<DynFaultDisk>>>> = Mutex::new(Vec::new());

/// An open disk behind `fault:PLAN:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultyDisk {
    /// The address behind `fault:PLAN:`. Disks that were opened by one address share the name.
    pub name: String,
    /// The current plan.
    pub plan: FaultPlan,
    /// The number of requests since the opening. The conditions of a plan count by it.
    pub requests: u64,
}

/// Opens `inner` with the faults of `plan` under `name`.
pub(crate) fn open_faulty(inner: Arc<dyn Disk>, plan: FaultPlan, name: &str) -> Arc<dyn Disk> {
    let disk = Arc::new(FaultDisk::new(inner, plan));
    let mut opened = lock();
    opened.retain(|known| known.disk.strong_count() > 0);
    opened.push(NamedDisk { name: name.into(), disk: Arc::downgrade(&disk) });
    disk
}

/// Returns the faulty disks that are open in this process, in the order of their opening.
pub fn faulty_disks() -> Vec<FaultyDisk> {
    let report = |NamedDisk { name, disk }: NamedDisk<Arc<DynFaultDisk>>| {
        let faults = disk.faults();
        FaultyDisk { name, plan: faults.plan(), requests: faults.requests() }
    };
    open_disks().into_iter().map(report).collect()
}

/// Replaces the plan of each open faulty disk called `name`. The plan judges all later requests, and those that hang.
///
/// # Errors
/// [`AddressError::NotFaulty`] if no open disk has the name.
pub fn set_fault_plan(name: &str, plan: &FaultPlan) -> Result<()> {
    let open = open_disks();
    if open.iter().all(|known| known.name != name) {
        let open = open.into_iter().map(|known| known.name).collect();
        return Err(AddressError::NotFaulty { name: name.into(), open });
    }
    open.iter().filter(|known| known.name == name).for_each(|known| known.disk.faults().set(plan.clone()));
    Ok(())
}

/// Returns the disks that are open. The caller drops them without the lock, because closing a disk may take long.
fn open_disks() -> Vec<NamedDisk<Arc<DynFaultDisk>>> {
    let open = |NamedDisk { name, disk }: &NamedDisk<Weak<DynFaultDisk>>| {
        disk.upgrade().map(|disk| NamedDisk { name: name.clone(), disk })
    };
    lock().iter().filter_map(open).collect()
}

fn lock() -> MutexGuard<'static, Vec<NamedDisk<Weak<DynFaultDisk>>>> {
    OPENED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
