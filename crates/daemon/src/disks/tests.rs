//! What becomes of a disk when its users come and go.

use std::fs::File;

use ferrite_block::DiskSpec;
use ferrite_disk::{Access, FaultDisk};
use ferrite_disk_address::{DiskAddress, make_file, open_file};
use ferrite_memory::planted::plant;
use ferrite_memory::{Guard, MapOptions, Mapped};
use ferrite_owner::{PoolAccess, ServiceRequest, machine};
use ferrite_pool::{FailureKind, Format};
use serde::Deserialize;

use super::*;

const BOOT: [u8; 16] = [1; 16];

/// A pool with one disk, `d`.
fn served() -> Arc<OpenDisks> {
    let options = MapOptions { guard: Guard::None, ..MapOptions::default() };
    let memory = Arc::new(Mapped::anonymous(16 << 20, &options).expect("mapped"));
    Pool::create(&*memory, &Format { uuid: [7; 16], boot_id: BOOT }).expect("created");
    let pool = Arc::new(Pool::open(memory, BOOT).expect("opened").0);
    ferrite_block::create(&pool, "d", &DiskSpec { size: 1 << 20, sector_bytes: 512, thin: false, checksum: false })
        .expect("created");
    OpenDisks::new(pool, Path::new("/nowhere"), Arc::default(), Weak::new())
}

/// As on a file: a write waits for a flush.
fn deferred() -> Serving {
    Serving { scheme: Some("writeback".into()), ..Serving::default() }
}

fn first_bytes(disk: &dyn Disk) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    disk.read(0, &mut bytes).expect("read");
    bytes
}

/// Without a crash nothing that was written is lost, flushed or not: a client that copies an image in and leaves finds
/// it when it comes again.
#[test]
fn what_was_written_is_there_for_who_opens_the_disk_next() {
    let served = served();
    let front = served.open("d", &deferred()).expect("opened");
    front.write(0, &[5; 4096], Access::Cached).expect("written");
    drop(front);
    let same = served.open("d", &deferred()).expect("opened");
    assert!(first_bytes(&*same) == [5; 4096], "lost with its writer");
    assert!(served.open("d", &Serving::default()).is_err(), "two clients would write to it in two ways");
    drop(same);
    let other = served.open("d", &Serving::default()).expect("not in use any more");
    assert!(first_bytes(&*other) == [5; 4096], "lost with the options it was written by");
}

/// Returns true if a client gets a disk that is becoming a file.
fn opens_beside_its_file() -> bool {
    let served = served();
    served.files.lock().insert("d".into(), FileSlot::Changing);
    let opened = served.open("d", &Serving::default());
    opened.map_or_else(|why| why.kind != FailureKind::Busy, |_| true)
}

#[test]
fn af5_a_disk_that_becomes_a_file_opens_for_no_client() {
    assert!(!opens_beside_its_file());
}

#[test]
fn canary_af5_a_disk_that_is_a_file_and_opens_for_others_is_caught() {
    let _planted = plant("daemon: a disk that is a file opens for others");
    assert!(opens_beside_its_file());
}

#[test]
fn a_disk_is_changed_from_outside_only_while_not_in_use_and_keeps_what_was_written() {
    let served = served();
    let front = served.open("d", &deferred()).expect("opened");
    front.write(0, &[6; 4096], Access::Cached).expect("written");
    assert!(served.while_closed("d", || Ok(())).is_err());
    assert!(served.report("d").is_some_and(|it| it.in_use));
    drop(front);
    assert!(served.report("d").is_some_and(|it| !it.in_use && it.writes == 1), "its counts outlive its users");
    served.while_closed("d", || Ok(())).expect("closed");
    assert!(first_bytes(&*served.open("d", &deferred()).expect("opened")) == [6; 4096], "lost when closed");
}

/// U6 at the end: the failure of one disk to make its data durable is reported, and the other disks are flushed.
#[test]
fn a_disk_that_cannot_be_flushed_keeps_no_other_from_it() {
    let served = served();
    let sound = served.open("d", &deferred()).expect("opened");
    let block = served.open.lock()["d"].block.clone().expect("a disk of ferrite");
    let bad: Arc<dyn Disk> = Arc::new(FaultDisk::new(Arc::clone(&block), "error=damaged".parse().expect("a plan")));
    let bad = OpenDisk { front: Arc::new(StatsDisk::new(bad)), block: Some(block), buffer: None, serving: deferred() };
    served.open.lock().insert("a, before it".into(), bad);
    assert!(served.end_all().expect_err("one refuses").message.contains("damaged"));
    assert_eq!(sound.stats().flushes, 1);
}

/// A client whose process has no number here (it is in another pid namespace) counts as process 0.
#[test]
fn the_owners_own_socket_outlives_every_connection() {
    let served = served();
    let nbd_addresses = |name: &str| NbdAddresses {
        unix: std::env::temp_dir().join(format!("ferrite-{}-{name}", std::process::id())),
        tcp: None,
    };
    let (own, theirs) = (nbd_addresses("own"), nbd_addresses("theirs"));
    served.listen(&own, "", &Serving::default(), None).expect("listens");
    served.listen(&theirs, "d", &Serving::default(), Some(0)).expect("listens");
    served.end_for(0);
    assert_eq!((own.unix.exists(), theirs.unix.exists()), (true, false));
    served.end_all().expect("ended");
    assert!(!own.unix.exists());
}

#[test]
fn the_owners_own_socket_tells_how_disks_are_served_to_who_does_not_say() {
    let served = served();
    assert_eq!(served.usual(), Serving::default());
    let nbd_addresses = |name: &str| NbdAddresses {
        unix: std::env::temp_dir().join(format!("ferrite-{}-usual-{name}", std::process::id())),
        tcp: None,
    };
    let (own, theirs) = (nbd_addresses("own"), nbd_addresses("theirs"));
    served.listen(&own, "", &deferred(), None).expect("listens");
    let read_only = Serving { read_only: true, ..Serving::default() };
    served.listen(&theirs, "d", &read_only, Some(1)).expect("listens");
    assert_eq!(served.usual(), deferred());
    let report = served.report("d").expect("open");
    assert_eq!((report.in_use, &report.serving, &report.served_at), (true, &read_only, &theirs.uris("d", None)));
    served.end_for(1);
    let report = served.report("d").expect("open still, for its counts");
    assert!(!report.in_use && report.served_at.is_empty());
    served.open("d", &served.usual()).expect("as the owner serves it");
    served.end_all().expect("ended");
}

#[test]
fn what_is_held_back_waits_for_a_flush() {
    let by = |name: &str| Serving { scheme: Some(name.into()), ..Serving::default() }.has_volatile_cache();
    assert!(!Serving::default().has_volatile_cache() && !by("nt") && !by("writethrough"));
    assert!(by("writeback") && by("writeback-all"));
}

/// Returns the access of an owner to a new pool at `path`, and that of a client.
fn owner_and_client(path: &Path) -> (PoolAccess, PoolAccess) {
    let file = File::options().read(true).write(true).create_new(true).open(path).expect("a file");
    file.set_len(16 << 20).expect("sized");
    let options = MapOptions { guard: Guard::None, ..MapOptions::default() };
    let boot_id = machine::boot_id().expect("read");
    Pool::create(&Mapped::map(file, &options).expect("mapped"), &Format { uuid: [7; 16], boot_id }).expect("created");
    let open = || PoolAccess::open(path, &crate::registry(), Some(Guard::None)).expect("opened");
    (open(), open())
}

/// A disk that the owner's process opened by an address lies outside of the pool, and its plan changes on command.
#[test]
fn a_client_changes_the_fault_plan_of_a_disk_in_the_owners_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let (owner, mut client) = owner_and_client(&folder.path().join("pool"));
    assert!(owner.owner().is_some() && client.owner().is_none());
    let image = folder.path().join("image");
    make_file(&image, 8192).expect("made");
    let name = image.to_str().expect("text").to_owned();
    let address = DiskAddress::parse(&format!("fault:hang@op=write:{name}")).expect("an address");
    let disk = address.with_models(open_file(&image, false).expect("opened")).expect("a disk").disk;
    let mut ask = |request: &DiskRequest| {
        let answer = client.call(ServiceRequest::of(request), &mut |_| true)?;
        Ok(Vec::<FaultyDiskReport>::deserialize(answer.value).expect("reports"))
    };
    let report = |plan: &str, requests| [FaultyDiskReport { address: name.clone(), plan: plan.into(), requests }];
    let set = |plan: &str| DiskRequest::SetFaults { address: name.clone(), plan: plan.into() };
    let writer = Arc::clone(&disk);
    let writing = std::thread::spawn(move || writer.write(0, &[5; 512], Access::Cached));
    while ask(&DiskRequest::Faults).expect("listed") != report("hang@op=write", 1) {
        std::thread::sleep(LEAVING_ROUND);
    }
    assert!(!writing.is_finished());
    assert_eq!(ask(&set("none")).expect("healed"), report("none", 1));
    writing.join().expect("joined").expect("written");
    assert_eq!(ask(&set("error@op=read")).expect("set"), report("error@op=read", 1));
    assert!(disk.read(0, &mut [0; 512]).is_err());
    let mut refusal = |request: &DiskRequest| -> ferrite_owner::Error { ask(request).expect_err("refused") };
    let unknown = refusal(&DiskRequest::SetFaults { address: "image".into(), plan: "none".into() });
    assert_eq!(unknown.kind(), FailureKind::NotFound);
    assert!(unknown.to_string().contains(&name), "{unknown}");
    assert_eq!(refusal(&set("fail")).kind(), FailureKind::Refused);
}
