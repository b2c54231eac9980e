//! Tests of changing the plans of open disks.

use std::path::Path;
use std::thread;
use std::time::Duration;

use ferrite_disk::Access;
use tempfile::TempDir;

use super::*;
use crate::{DiskAddress, make_file, open_file};

/// Makes an image in a new folder, so that no other test of this process has a disk of that name.
fn image() -> (TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("image");
    make_file(&path, 8192).expect("made");
    let path = path.to_str().expect("text").into();
    (folder, path)
}

fn open(models: &str, image: &str) -> Arc<dyn Disk> {
    let address = DiskAddress::parse(&format!("{models}{image}")).expect("an address");
    address.with_models(open_file(Path::new(image), false).expect("opened")).expect("a disk").disk
}

/// Returns the plans and requests of the open disks called `name`.
fn listed(name: &str) -> Vec<(String, u64)> {
    let disks = faulty_disks().into_iter().filter(|disk| disk.name == name);
    disks.map(|disk| (disk.plan.to_string(), disk.requests)).collect()
}

fn set(name: &str, plan: &str) {
    set_fault_plan(name, &plan.parse().expect("a plan")).expect("set");
}

#[test]
fn a_write_that_hangs_ends_when_its_disk_is_healed() {
    let (_folder, image) = image();
    let disk = open("fault:hang@op=write:", &image);
    let writer = Arc::clone(&disk);
    let writing = thread::spawn(move || writer.write(0, &[5; 4096], Access::Cached));
    while listed(&image) != [("hang@op=write".into(), 1)] {
        thread::sleep(Duration::from_millis(1));
    }
    assert!(!writing.is_finished());
    set(&image, "none");
    writing.join().expect("joined").expect("written");
    assert_eq!(listed(&image), [("none".into(), 1)]);
    let mut back = [0; 4096];
    disk.read(0, &mut back).expect("read");
    assert_eq!(back, [5; 4096]);
}

/// A drive before `fault:` does not belong to the name, and a drive behind it does.
#[test]
fn an_error_begins_on_command_and_a_closed_disk_is_not_listed() {
    let (_folder, image) = image();
    let disk = open("ssd-nvme:fault:none:", &image);
    disk.flush().expect("flushed");
    set(&image, "error@op=flush");
    assert!(disk.flush().is_err());
    drop(disk);
    // For a moment, another test that lists the disks may hold this one.
    while !listed(&image).is_empty() {
        thread::sleep(Duration::from_millis(1));
    }
    let _disk = open("fault:none:ssd-nvme:", &image);
    assert_eq!((listed(&image), listed(&format!("ssd-nvme:{image}"))), (vec![], vec![("none".into(), 0)]));
}

#[test]
fn an_unknown_name_is_refused_with_the_names_of_the_open_disks() {
    let (_folder, image) = image();
    let _disk = open("fault:none:", &image);
    let error = set_fault_plan("image", &FaultPlan::default()).expect_err("unknown").to_string();
    assert!(
        error.contains("has no open disk behind fault: called \"image\": name one of ") && error.contains(&image),
        "{error}"
    );
    let none = AddressError::NotFaulty { name: "d".into(), open: vec![] }.to_string();
    assert!(none.ends_with("has no open disk behind fault:"), "{none}");
}
