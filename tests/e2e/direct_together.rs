//! Files that programs reach in several ways at once: directly, through the mount, and by the kernel's rings.

use std::path::Path;
use std::process::Command;

use crate::direct::{counted, direct, python};
use crate::mount::{Place, start};
use crate::programs::client;
use crate::server::{assert_sound, run};

/// Appends records and looks for torn records.
const RECORDS: &str = include_str!("direct/records.py");
const RING: &str = include_str!("direct/ring.c");

/// FG11: if an append begins within a page, the kernel splits it into two requests.
#[test]
fn an_append_through_the_mount_is_whole_beside_direct_ones() {
    let Some(place) = Place::new() else { return };
    let server = place.start();
    for size in ["6000", "3000", "6000"] {
        let (message, counts) = counted(python(RECORDS, &place.at.join("records")).arg(size));
        println!("{counts}");
        assert_eq!(message, "True 0\n", "FG11: all bytes are there, and none are torn: {size}");
        let both = ["direct", "mount"].map(|way| counts[way]["calls"].as_u64());
        assert!(both.iter().all(|calls| *calls > Some(100)), "both ways were used: {counts}");
    }
    server.interrupt();
    assert_sound(&place.pool);
}

/// LD2, LD3: liburing makes its system calls by itself.
#[test]
fn a_program_with_a_ring_of_liburing_finds_offsets_and_files_as_without_it() {
    if !Path::new("/usr/include/liburing.h").exists() {
        return println!("skipped: this machine has no liburing-dev");
    }
    let Some(place) = Place::new() else { return };
    let folder = place.pool.parent().expect("in a folder");
    let [source, program, plugin] = ["ring.c", "ring", "ring.so"].map(|name| folder.join(name));
    std::fs::write(&source, RING).expect("written");
    run(client("gcc").args(["-w", "-o"]).args([&program, &source]).arg("-luring"));
    run(client("gcc").args(["-w", "-shared", "-fPIC", "-o"]).args([&plugin, &source]).arg("-luring"));
    let load = "import ctypes, sys\n\
        ctypes.CDLL(sys.argv[3]).ring(sys.argv[1].encode(), sys.argv[2].encode())\n\
        ctypes.CDLL(None).fflush(None)";
    let server = start(&place.pool, &place.at, &["--size", "64M", "--disk", "d=8M"]);
    for how in ["plain", "usual"] {
        let mut by_itself = Command::new(&program);
        by_itself.arg(&place.at).arg(how);
        let mut by_plugin = python(load, &place.at);
        by_plugin.arg(how).arg(&plugin);
        for mut command in [by_itself, by_plugin] {
            let plain = run(&mut command);
            if plain.contains("skipped: ") {
                return print!("{plain}");
            }
            assert!(plain.starts_with("read 8 00000020, then at 168\nwrote 8 written!"), "{plain}");
            assert_eq!(run(&mut direct(&command, &[])), plain);
        }
    }
    server.interrupt();
    assert_sound(&place.pool);
}
