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

/// Where the file system with DAX is mounted.
pub const FOLDER: &str = "/mnt/pm";

/// The device DAX of an NVDIMM.
pub fn device() -> PathBuf {
    fs::canonicalize("/run/dax-nvdimm").expect("device DAX")
}

const SURVIVES: &str = "dax, survives a process crash, a kernel crash and power loss: it lies in ";

/// What is put in is what comes out, in the same process's pool and in the next one's.
fn keeps(pool: &str, more: &[&str]) {
    ok(&[&["pool", "create", pool], more].concat());
    let told = json(&["pool", "info", pool]);
    assert!(told["medium"].as_str().is_some_and(|line| line.starts_with(SURVIVES)), "{told}");
    let at = std::env::temp_dir().join("content");
    fs::write(&at, kill::content(7, 7)).expect("written");
    ok(&["tag", "put", pool, "content", at.to_str().expect("text")]);
    ok(&["disk", "create", pool, "d", "--size", "8M"]);
    let back = at.with_extension("back");
    ok(&["tag", "get", pool, "content", back.to_str().expect("text")]);
    assert!(fs::read(back).expect("read") == kill::content(7, 7), "other bytes came back");
    assert_sound(Path::new(pool));
}

/// The line that says what survives says power loss; and it is true of new blocks of a sparse file too: the mapping is
/// a synchronous one.
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

/// The kernel allows DAX on memory that `memmap=` sets aside, too; that memory is as volatile as any other.
#[test]
fn a_pool_on_memmap_memory_does_not_survive_power_loss_and_says_so() {
    inside(Working, "a_pool_on_memmap_memory_does_not_survive_power_loss_and_says_so", || {
        let pool = "/mnt/memmap/pool";
        let told = json(&["pool", "create", pool, "--size", "32M"]);
        assert!(
            told["medium"].as_str().is_some_and(|line| line.starts_with("dax, survives a process crash; ")),
            "{told}"
        );
        let survives = &told["survives"];
        assert_eq!(
            (&survives["kernel_crash"]["state"], &survives["power_loss"]["state"]),
            (&"not-known".into(), &"no".into())
        );
        assert!(survives["power_loss"]["why"].as_str().is_some_and(|why| why.contains("memmap=")), "{told}");
        fs::remove_file(pool).expect("removed");
    });
}

/// A region of a CXL device is persistent memory if it says where stores persist. Nothing is stored to it here: QEMU
/// emulates each access.
#[test]
fn a_persistent_cxl_region_survives_power_loss() {
    inside(Working, "a_persistent_cxl_region_survives_power_loss", || {
        let Ok(device) = fs::canonicalize("/run/dax-cxl") else {
            return println!("skipped: the guest's kernel, or QEMU, makes no device DAX of a CXL region");
        };
        let file = fs::OpenOptions::new().read(true).write(true).open(device).expect("opened");
        let memory = Mapped::map(file, &MapOptions::default()).expect("mapped");
        let told = memory.describe(&memory.survival());
        assert!(told.starts_with(SURVIVES) && told.contains("persistent memory (CXL)"), "{told}");
    });
}

/// Kills under a file system on a disk on DAX, with the default scheme and with the one that leaves most in caches.
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

/// Not a test by itself: the process that stores where it must not, and has no handler for the fault.
#[test]
#[allow(unsafe_code)] // A stray store is what it is about.
fn stores_astray() {
    let Ok(path) = std::env::var("FERRITE_ASTRAY") else { return };
    let file = fs::OpenOptions::new().read(true).write(true).open(&path).expect("opened");
    let memory = Mapped::map(file, &MapOptions { guard: Guard::Keys, ..MapOptions::default() }).expect("mapped");
    memory.store(0, &[7; 64], Scheme::Nt);
    memory.fence();
    let maps = fs::read_to_string("/proc/self/maps").expect("read");
    let line = maps.lines().find(|line| line.ends_with(&path)).expect("it is mapped");
    let base = usize::from_str_radix(line.split('-').next().expect("a start"), 16).expect("a number");
    // SAFETY: none: the address is mapped and must not be stored to; the process ends here.
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
