//! The service in a pool of this process, with disks in memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ferrite_disk::{Access, Disk, RamDisk};
use ferrite_memory::{Guard, MapOptions, Mapped};
use ferrite_owner::services::PoolRequest;
use ferrite_owner::{Error, PoolAccess, ServiceRegistry, ServiceRequest, TypedRequest, machine};
use ferrite_pool::disk_stamp::DISK_STAMP_BYTES;
use ferrite_pool::layout::{CHUNK, PAGE};
use ferrite_pool::{Failure, FailureKind, Format, Pool};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{GUEST, GuestDiskPlace, GuestReport, GuestRequest, GuestService, PmRange};

pub(crate) const SIZE: u64 = 8 << 20;

/// A pool in a file, and disks in memory by address. They stay when the pool is closed.
pub(crate) struct ServedGuests {
    _folder: tempfile::TempDir,
    path: PathBuf,
    pub(super) disks: Arc<Mutex<BTreeMap<String, Arc<RamDisk>>>>,
    /// The address of a disk that hangs while it is opened, and whether a thread opens it.
    pub(super) hanging: Arc<Mutex<Option<(String, bool)>>>,
}

impl ServedGuests {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        let file = File::options().read(true).write(true).create_new(true).open(&path).expect("a file");
        file.set_len(16 * CHUNK).expect("sized");
        let memory = Mapped::map(file, &MapOptions { guard: Guard::None, ..MapOptions::default() }).expect("mapped");
        Pool::create(&memory, &Format { uuid: [7; 16], boot_id: machine::boot_id().expect("read") }).expect("a pool");
        let disk = |size| Arc::new(RamDisk::new(size));
        let disks = [
            ("d", SIZE + DISK_STAMP_BYTES),
            ("e", SIZE + DISK_STAMP_BYTES),
            ("f", SIZE + DISK_STAMP_BYTES),
            ("small", SIZE),
        ];
        let disks = disks.map(|(name, size)| (name.to_string(), disk(size)));
        Self { _folder: folder, path, disks: Arc::new(Mutex::new(disks.into())), hanging: Arc::default() }
    }

    pub(crate) fn open(&self) -> PoolAccess {
        let (disks, hanging) = (Arc::clone(&self.disks), Arc::clone(&self.hanging));
        let opener = move |address: &str| {
            // A disk that nothing releases ends the test after a minute.
            for _ in 0..6000 {
                match &mut *hanging.lock() {
                    Some((hangs, is_reached)) if hangs == address => *is_reached = true,
                    _ => break,
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            match disks.lock().get(address) {
                Some(disk) => Ok(Arc::clone(disk) as Arc<dyn Disk>),
                None => Err(format!("there is no {address}")),
            }
        };
        let registry = Arc::new(ServiceRegistry::default().with(GuestService::new(Arc::new(opener))));
        PoolAccess::open(&self.path, &registry, Some(Guard::None)).expect("it opens")
    }
}

pub(crate) fn create(name: &str, disk: &str) -> GuestRequest {
    let disk = GuestDiskPlace { address: disk.into(), path: PathBuf::new() };
    GuestRequest::Create { name: name.into(), size: SIZE, pm: Some(PmRange::fixed(2 * CHUNK)), weight: None, disk }
}

pub(crate) fn ask<T: DeserializeOwned>(access: &mut PoolAccess, request: &impl TypedRequest) -> T {
    let reply = access.call(ServiceRequest::of(request), &mut |_| true).expect("answered");
    serde_json::from_value(reply.value).expect("understood")
}

pub(crate) fn refused(access: &mut PoolAccess, request: &GuestRequest) -> Failure {
    match access.call(ServiceRequest::of(request), &mut |_| true) {
        Err(Error::Failed(failure)) => failure,
        other => panic!("{:?}", other.map(|reply| reply.value)),
    }
}

pub(crate) fn disk(access: &PoolAccess, name: &str) -> Arc<dyn Disk> {
    let owner = access.owner().expect("this process owns the pool");
    owner.running().open_disk(owner.pool(), name).expect("a service has it").expect("it opens")
}

pub(crate) fn close(access: PoolAccess) {
    let PoolAccess::Owner(owner) = access else { panic!("another process owns it") };
    assert!(Arc::into_inner(owner).expect("alone").close().expect("it closes"), "in order");
}

pub(crate) fn block(disk: &dyn Disk, page: u64) -> u8 {
    let mut bytes = [0; PAGE as usize];
    disk.read(page * PAGE, &mut bytes).expect("read");
    assert!(bytes.iter().all(|byte| *byte == bytes[0]));
    bytes[0]
}

/// The way of a user: make, write more than fits, stop, start again, flush, remove.
#[test]
fn a_guest_is_used_by_its_name_and_keeps_its_data_over_a_restart() {
    let world = ServedGuests::new();
    let mut access = world.open();
    let made: GuestReport = ask(&mut access, &create("g", "d"));
    assert_eq!((made.size, made.pm_bytes, made.counts), (SIZE, 2 * CHUNK, None));
    let owner = access.owner().expect("ours");
    assert_eq!(owner.running().disk_names(), ["g"]);
    assert_eq!(owner.running().disk_of("g"), Some((GUEST, Some(SIZE))));
    let front = disk(&access, "g");
    let pages = SIZE / PAGE;
    let bytes: Vec<u8> = (0..pages).flat_map(|page| [1 + page as u8 % 200; PAGE as usize]).collect();
    front.write(0, &bytes, Access::Cached).expect("written");
    let busy = refused(&mut access, &GuestRequest::Remove { name: "g".into(), lose: None });
    assert_eq!(busy.kind, FailureKind::Busy, "{busy}");
    drop(front);
    let stat: GuestReport = ask(&mut access, &GuestRequest::Stat { name: "g".into() });
    let counts = stat.counts.expect("it is open");
    assert!(counts.demoted_pages >= pages / 2 && counts.truth_frames > 0, "{counts:?}");
    let running = access.owner().expect("ours").running().of(crate::GUEST_KIND).expect("registered").metrics();
    assert!(
        running
            .iter()
            .any(|metric| metric.name == "guest_demoted_pages_total" && metric.samples[0].value.number() > Some(0.0))
    );
    close(access);

    let mut access = world.open();
    assert!((0..pages).all(|page| block(&*disk(&access, "g"), page) == 1 + page as u8 % 200));
    let flushed: GuestReport = ask(&mut access, &GuestRequest::Flush { name: "g".into() });
    assert_eq!(flushed.counts.map(|counts| counts.truth_frames), Some(0));
    let raw = Arc::clone(&world.disks.lock()["d"]);
    assert!((0..pages).all(|page| block(&*raw, page) == 1 + page as u8 % 200), "the disk is the image");
    let report: Value = ask(&mut access, &PoolRequest::Check);
    assert_eq!(report["findings"], serde_json::json!([]), "the check reads a sound guest");
    ask::<Value>(&mut access, &GuestRequest::Remove { name: "g".into(), lose: None });
    assert_eq!(ask::<Vec<GuestReport>>(&mut access, &GuestRequest::List), []);
    ask::<GuestReport>(&mut access, &create("again", "d"));
    assert_eq!(block(&*disk(&access, "again"), 7), 8, "the disk's content is the new guest's");
}

/// Nothing of a refused guest is left, and a guest whose disk is gone can be removed.
#[test]
fn refusals_name_the_way_out() {
    let world = ServedGuests::new();
    let mut access = world.open();
    let rows = [
        (create("g", "none"), FailureKind::Refused, "there is no none"),
        (create("g", "small"), FailureKind::Refused, "needs 8396800"),
        (create("", "d"), FailureKind::BadName, ""),
        (GuestRequest::Stat { name: "g".into() }, FailureKind::NotFound, "ferrite guest create"),
    ];
    for (request, kind, why) in rows {
        let failure = refused(&mut access, &request);
        assert_eq!(failure.kind, kind, "{failure}");
        assert!(failure.message.contains(why), "{failure}");
    }
    assert_eq!(ask::<Vec<GuestReport>>(&mut access, &GuestRequest::List), []);
    ask::<GuestReport>(&mut access, &create("g", "d"));
    assert_eq!(refused(&mut access, &create("g", "e")).kind, FailureKind::Exists);
    assert!(refused(&mut access, &create("h", "d")).message.contains("the stamp of a guest"));
    disk(&access, "g").write(0, &[1; 8192], Access::Cached).expect("written");
    close(access);
    world.disks.lock().remove("d");

    let mut access = world.open();
    let remove = |lose| GuestRequest::Remove { name: "g".into(), lose };
    let failure = refused(&mut access, &remove(None));
    assert!(failure.message.contains("there is no d") && failure.message.contains("--lose 8192"), "{failure}");
    assert!(refused(&mut access, &remove(Some(1))).message.contains("--lose 8192"));
    ask::<Value>(&mut access, &remove(Some(8192)));
    assert_eq!(ask::<Vec<GuestReport>>(&mut access, &GuestRequest::List), []);
}
