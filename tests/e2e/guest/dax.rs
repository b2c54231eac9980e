//! Pools in persistent memory: on a file system with DAX, and on device DAX.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use ferrite_memory::{Guard, MapOptions, Mapped, Memory, Scheme};

use super::Stage::Working;
use super::inside;
use crate::kill;
use crate::programs::ferrite;
use crate::server::{Server, assert_sound, json, ok, refused};

/// The mount point of the file system with DAX.
pub const FOLDER: &str = "/mnt/pm";

/// Returns the device DAX of an NVDIMM.
pub fn device() -> PathBuf {
    fs::canonicalize("/run/dax-nvdimm").expect("device DAX")
}

const SURVIVES: &str = "dax, survives a process crash, a kernel crash and power loss: it lies in ";

/// Asserts that a tag returns its bytes, in the process that made the pool and in the next process.
fn keeps(pool: &str, more: &[&str]) {
    ok(&[&["pool", "create", pool], more].concat());
    let report = json(&["pool", "info", pool]);
    assert!(report["medium"].as_str().is_some_and(|line| line.starts_with(SURVIVES)), "{report}");
    let at = std::env::temp_dir().join("content");
    fs::write(&at, kill::content(7, 7)).expect("written");
    ok(&["tag", "put", pool, "content", at.to_str().expect("text")]);
    ok(&["disk", "create", pool, "d", "--size", "8M"]);
    let back = at.with_extension("back");
    ok(&["tag", "get", pool, "content", back.to_str().expect("text")]);
    assert!(fs::read(back).expect("read") == kill::content(7, 7), "other bytes came back");
    assert_sound(Path::new(pool));
}

/// The pool prints that it survives power loss. The claim also holds for new blocks of a sparse file, because the
/// mapping is synchronous.
#[test]
fn a_pool_on_a_dax_file_system_survives_power_loss_and_says_so() {
    inside(Working, "a_pool_on_a_dax_file_system_survives_power_loss_and_says_so", || {
        let pool = Path::new(FOLDER).join("says");
        keeps(pool.to_str().expect("text"), &["--size", "32M"]);
        let server = Server::start(&pool, &["--no-attach"]);
        let maps = fs::read_to_string(format!("/proc/{}/smaps", server.pid())).expect("read");
        let ours = maps.split("VmFlags:").find(|part| part.contains("/mnt/pm/says")).expect("the pool is mapped");
        let at = maps.find(ours).expect("a part") + ours.len();
        let flags = maps[at..].lines().next().expect("a line");
        assert!(flags.split_whitespace().any(|flag| flag == "sf"), "not mapped synchronously: {flags}");
        server.interrupt();
        fs::remove_file(pool).expect("removed");
    });
}

#[test]
fn a_pool_on_device_dax_survives_power_loss_and_says_so() {
    inside(Working, "a_pool_on_device_dax_survives_power_loss_and_says_so", || {
        let device = device();
        let name = device.to_str().expect("text");
        keeps(name, &[]);
        let said = refused(ferrite().args(["pool", "create", name]), 1);
        let lose = said.split("--lose ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a number");
        ok(&["pool", "create", name, "--lose", lose]);
    });
}

/// The kernel also allows DAX on memory that `memmap=` reserves, and that memory is volatile.
#[test]
fn a_pool_on_memmap_memory_does_not_survive_power_loss_and_says_so() {
    inside(Working, "a_pool_on_memmap_memory_does_not_survive_power_loss_and_says_so", || {
        let pool = "/mnt/memmap/pool";
        let report = json(&["pool", "create", pool, "--size", "32M"]);
        assert!(
            report["medium"].as_str().is_some_and(|line| line.starts_with("dax, survives a process crash; ")),
            "{report}"
        );
        let survives = &report["survives"];
        assert_eq!(
            (&survives["kernel_crash"]["state"], &survives["power_loss"]["state"]),
            (&"not-known".into(), &"no".into())
        );
        assert!(survives["power_loss"]["why"].as_str().is_some_and(|why| why.contains("memmap=")), "{report}");
        fs::remove_file(pool).expect("removed");
    });
}

/// A region of a CXL device is persistent memory if the device reports where stores persist. This test stores no data
/// to it, because QEMU emulates each access.
#[test]
fn a_persistent_cxl_region_survives_power_loss() {
    inside(Working, "a_persistent_cxl_region_survives_power_loss", || {
        let Ok(device) = fs::canonicalize("/run/dax-cxl") else {
            return println!("skipped: the guest's kernel, or QEMU, makes no device DAX of a CXL region");
        };
        let file = fs::OpenOptions::new().read(true).write(true).open(device).expect("opened");
        let memory = Mapped::map(file, &MapOptions::default()).expect("mapped");
        let report = memory.describe(&memory.survival());
        assert!(report.starts_with(SURVIVES) && report.contains("persistent memory (CXL)"), "{report}");
    });
}

/// Kills the server under a file system on a disk on DAX. Runs with the default scheme and with the scheme that leaves
/// most data in caches.
#[test]
fn kills_on_dax_lose_no_fsynced_file() {
    inside(Working, "kills_on_dax_lose_no_fsynced_file", || {
        for scheme in ["nt", "writeback"] {
            let folder = Path::new(FOLDER).join(scheme);
            fs::create_dir(&folder).expect("made");
            kill::kill_rounds_at(&folder, "guest-dax", 1, &["--scheme", scheme]);
            fs::remove_dir_all(folder).expect("removed");
        }
    });
}

/// Runs as a child process that stores to protected memory and has no handler for the fault. This is not a test by
/// itself.
#[test]
#[allow(unsafe_code)] // This function tests a stray store.
fn stores_astray() {
    let Ok(path) = std::env::var("FERRITE_ASTRAY") else { return };
    let file = fs::OpenOptions::new().read(true).write(true).open(&path).expect("opened");
    let memory = Mapped::map(file, &MapOptions { guard: Guard::Keys, ..MapOptions::default() }).expect("mapped");
    memory.store(0, &[7; 64], Scheme::Nt);
    memory.fence();
    let maps = fs::read_to_string("/proc/self/maps").expect("read");
    let line = maps.lines().find(|line| line.ends_with(&path)).expect("it is mapped");
    let base = usize::from_str_radix(line.split('-').next().expect("a start"), 16).expect("a number");
    // SAFETY: this store breaks the rules on purpose: the address is mapped and protected. The process ends here.
    unsafe { (base as *mut u8).add(4096).write_volatile(1) };
    panic!("a stray store got through");
}

/// A stray store to persistent memory ends the process that tries it and changes nothing (GU1).
#[test]
fn a_stray_store_to_dax_changes_nothing() {
    inside(Working, "a_stray_store_to_dax_changes_nothing", || {
        if let Err(lacking) = Guard::Keys.ensure_available() {
            println!("skipped: {lacking}");
            return;
        }
        let path = Path::new(FOLDER).join("astray");
        fs::write(&path, vec![0; 4 << 20]).expect("written");
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        let child = child.args(["--exact", "guest::dax::stores_astray"]).env("FERRITE_ASTRAY", &path);
        let ended = child.output().expect("it runs").status;
        assert_eq!(ended.signal(), Some(libc::SIGSEGV), "{ended}");
        let found = fs::read(&path).expect("read");
        assert!(found[..64] == [7; 64] && found[64..].iter().all(|byte| *byte == 0), "something else changed");
        fs::remove_file(path).expect("removed");
    });
}
