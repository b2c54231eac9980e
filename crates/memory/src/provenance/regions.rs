//! Regions of persistent memory, and of memory that only appears as such.
//!
//! The kernel allows DAX on all of them, so DAX proves nothing. A region's bus names its provider. The region's
//! `persistence_domain` names the part of the machine that stores must reach to survive power loss; the kernel omits it
//! if firmware does not report it.

use std::path::Path;

use super::{Claim, MemoryOrigin, Survives, System, line, name};

impl System {
    /// Returns the origin of the device DAX whose folder in `/sys` is `folder`.
    pub(super) fn dax(&self, folder: &Path) -> MemoryOrigin {
        let within = |word: &str| folder.iter().any(|part| part.to_string_lossy().starts_with(word));
        match self.region(folder) {
            Some(origin) => origin,
            None if within("hmem") => MemoryOrigin::no("special-purpose memory (hmem), which is volatile"),
            None if within("dax_region") => MemoryOrigin::no("a volatile region of CXL memory"),
            None => MemoryOrigin::not_known("device DAX of which Ferrite knows nothing"),
        }
    }

    /// Returns the origin of the region of the device whose folder in `/sys` is `folder`, or `None` if no region holds
    /// the device.
    pub(super) fn region(&self, folder: &Path) -> Option<MemoryOrigin> {
        let region = folder.ancestors().find(|at| is_called(at, "region") && at.parent().is_some_and(is_bus))?;
        let bus = region.parent()?;
        let provider = line(&bus.join("provider")).unwrap_or_default();
        if line(&region.join("devtype")).is_some_and(|kind| kind == "nd_volatile") {
            return Some(MemoryOrigin::no("a region of memory that firmware calls volatile"));
        }
        Some(match provider.as_str() {
            "e820" => MemoryOrigin {
                kernel_crash: Claim::new(
                    Survives::NotKnown,
                    "memory that memmap= sets aside, which firmware may clear",
                ),
                power_loss: Claim::new(Survives::No, "memory that memmap= sets aside, which loses its content"),
            },
            "virtio-pmem" => MemoryOrigin::not_known("virtio-pmem, whose host decides"),
            "ACPI.NFIT" | "CXL" => persistent(region, bus, &provider),
            _ => MemoryOrigin::not_known("persistent memory of a provider of which Ferrite knows nothing"),
        })
    }
}

/// Returns the origin of a region that firmware or a CXL device calls persistent.
fn persistent(region: &Path, bus: &Path, provider: &str) -> MemoryOrigin {
    let is_persistent = line(&region.join("devtype")).is_some_and(|kind| kind == "nd_pmem");
    let reaches = match line(&region.join("persistence_domain")).as_deref() {
        Some("cpu_cache") => "the processor's caches",
        Some("memory_controller") => "the memory controller",
        _ => {
            return MemoryOrigin::not_known(format!(
                "memory ({provider}) whose firmware does not say when stores persist"
            ));
        }
    };
    if !is_persistent {
        return MemoryOrigin::not_known(format!("memory ({provider}) of a kind that Ferrite does not know"));
    }
    if (0..).map_while(|nth| line(&region.join(format!("mapping{nth}")))).any(|mapping| is_unarmed(bus, &mapping)) {
        return MemoryOrigin::no(format!("memory ({provider}) that is not armed to save its content"));
    }
    MemoryOrigin::both(Survives::Yes, format!("persistent memory ({provider}), which keeps what reached {reaches}"))
}

/// Returns true if the module of `mapping` (`MODULE,START,BYTES,POSITION`) reports that it does not save its content.
fn is_unarmed(bus: &Path, mapping: &str) -> bool {
    let module = mapping.split(',').next().unwrap_or_default();
    let flags = line(&bus.join(module).join("nfit/flags")).unwrap_or_default();
    flags.split_whitespace().any(|flag| ["not_armed", "save_fail", "map_fail"].contains(&flag))
}

fn is_bus(path: &Path) -> bool {
    is_called(path, "ndbus")
}

/// Returns true if the name of `path` is `word` and a number.
fn is_called(path: &Path, word: &str) -> bool {
    name(path).strip_prefix(word).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|c| c.is_ascii_digit()))
}
