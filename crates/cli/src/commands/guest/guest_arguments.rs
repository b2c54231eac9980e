//! `ferrite guest arguments`.

use std::path::Path;

use clap::{Args, ValueEnum};
use ferrite_daemon::disks::{DiskRequest, FileReport};
use ferrite_guest::{GuestReport, GuestRequest};
use ferrite_owner::paths::quoted;
use serde_json::json;

use super::GuestName;
use crate::command_pool::CommandPool;
use crate::outcome::{Outcome, and_then_cleared};
use crate::pool_argument::InPool;
use crate::stop;

/// The bytes in whose multiples machines map persistent memory.
const ALIGNMENT: u64 = 2 << 20;

/// A program whose arguments name a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Machine {
    /// An NVDIMM, by `ferrite guest run`
    Qemu,
    /// QEMU's virtio-pmem, by `ferrite guest attach`
    QemuPmem,
    /// The option --pmem, by `ferrite guest attach`
    CloudHypervisor,
    /// The body of PUT /pmem/ferrite, by `ferrite guest attach`
    Firecracker,
}

/// Print the arguments by which a virtual machine has a guest as its persistent memory
///
/// In the machine it is /dev/pmem0. By `guest run` stores of the machine go to the pool, and QEMU may write to all of
/// it. By `guest attach` they go to the page cache until a flush, and the machine has the guest alone. QEMU needs
/// `-m SIZE,slots=1,maxmem=MORE` beside them, with MORE at least SIZE and the guest's size together.
#[derive(Args)]
pub struct GuestArguments {
    #[command(flatten)]
    guest: InPool<GuestName>,
    /// The program that the arguments are for
    #[arg(long = "for", value_enum, value_name = "PROGRAM", default_value = "qemu")]
    machine: Machine,
}

impl GuestArguments {
    /// Prints the arguments in one line, for `$(...)` of a shell.
    pub fn run(self) -> Outcome {
        let InPool { pool, words: GuestName { name } } = self.guest;
        let pool = pool.path()?;
        stop::watch()?;
        let mut command_pool = CommandPool::new(&pool)?;
        let line = line_for(self.machine, &pool, &mut command_pool, &name);
        crate::commands::write(&and_then_cleared(line, command_pool.close())?).map(drop)
    }
}

fn line_for(machine: Machine, pool: &Path, command_pool: &mut CommandPool, name: &str) -> Outcome<String> {
    let guest = named_guest(command_pool.ask(GuestRequest::List, None)?, name)?;
    if machine == Machine::Qemu {
        return Ok(nvdimm(guest.size));
    }
    let file: Option<FileReport> = command_pool.ask(DiskRequest::File { name: name.into() }, None)?;
    let (pool, quoted_name) = (quoted(pool), quoted(name.as_ref()));
    let file = file.ok_or_else(|| {
        format!("the guest {name:?} is no file: `ferrite guest attach {pool} {quoted_name}` in another terminal first")
    })?;
    on_file(machine, &file)
}

/// Returns the guest called `name` of `guests`.
pub fn named_guest(guests: Vec<GuestReport>, name: &str) -> Outcome<GuestReport> {
    let missing =
        || format!("there is no guest called {name:?}: see `ferrite guest list`, or `ferrite guest create` it");
    Ok(guests.into_iter().find(|guest| guest.name == name).ok_or_else(missing)?)
}

/// Returns the arguments that make a region of `bytes` an NVDIMM of QEMU.
fn nvdimm(bytes: u64) -> String {
    format!(
        "-machine nvdimm=on -object memory-backend-file,id=ferrite,share=on,mem-path={{}},size={bytes} \
         -device nvdimm,id=ferrite-nvdimm,memdev=ferrite\n"
    )
}

/// Returns the line for a machine that maps `file`.
fn on_file(machine: Machine, file: &FileReport) -> Outcome<String> {
    let FileReport { path, size, .. } = file;
    if !size.is_multiple_of(ALIGNMENT) {
        return Err(format!("the guest has {size} bytes: a machine maps whole multiples of 2M").into());
    }
    let is_plain = |text: &&str| text.chars().all(|c| c.is_alphanumeric() || "-_./+:@%,".contains(c));
    let path = path.to_str().filter(is_plain).ok_or_else(|| {
        format!("a shell would change {}: `ferrite guest attach --path` with a plainer path", path.display())
    })?;
    Ok(match machine {
        Machine::Qemu => nvdimm(*size),
        Machine::QemuPmem => format!(
            "-object memory-backend-file,id=ferrite,share=on,mem-path={},size={size} \
             -device virtio-pmem-pci,id=ferrite-pmem,memdev=ferrite\n",
            path.replace(',', ",,")
        ),
        Machine::CloudHypervisor if path.contains(',') => {
            return Err(format!("Cloud Hypervisor has no path with a comma: {path}").into());
        }
        Machine::CloudHypervisor => format!("--pmem file={path}\n"),
        Machine::Firecracker => json!({"id": "ferrite", "path_on_host": path}).to_string() + "\n",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, size: u64) -> FileReport {
        FileReport { path: path.into(), size, notes: Vec::new() }
    }

    #[test]
    fn qemu_gets_a_shared_nvdimm_of_the_guests_size() {
        let line = nvdimm(256 << 20);
        for part in ["nvdimm=on", "share=on", "mem-path={},size=268435456 ", "memdev=ferrite\n"] {
            assert!(line.contains(part), "{part}: {line}");
        }
    }

    #[test]
    fn a_machine_maps_the_file_of_an_attached_guest() {
        let line = |machine, path| on_file(machine, &file(path, 4 << 20)).map_err(|why| why.text().to_owned());
        let pmem = line(Machine::QemuPmem, "/run/a,b").expect("a plain path");
        assert!(pmem.contains("share=on,mem-path=/run/a,,b,size=4194304 -device virtio-pmem-pci,"), "{pmem}");
        assert_eq!(line(Machine::CloudHypervisor, "/run/g").as_deref(), Ok("--pmem file=/run/g\n"));
        let body = line(Machine::Firecracker, "/run/g").expect("a plain path");
        assert_eq!(body, "{\"id\":\"ferrite\",\"path_on_host\":\"/run/g\"}\n");
        assert!(line(Machine::CloudHypervisor, "/run/a,b").is_err() && line(Machine::QemuPmem, "/a b").is_err());
        assert!(on_file(Machine::Firecracker, &file("/run/g", 4096)).is_err(), "not a multiple of 2M");
    }
}
