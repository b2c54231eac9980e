//! Guests that an owner lends to another process. Both ends are in this process, with a socket between them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ferrite_disk::{Disk, FileDisk, FileDiskOptions};
use ferrite_memory::Guard;
use ferrite_memory::planted::{plant, plant_in_process_with};
use ferrite_owner::services::PoolRequest;
use ferrite_owner::{PoolAccess, PoolOwner, ServiceRegistry, ServiceRequest};
use ferrite_pool::disk_stamp::DISK_STAMP_BYTES;
use ferrite_pool::layout::{CHUNK, PAGE};
use ferrite_pool::{Failure, FailureKind};

use super::region_rig::{PAGES, RegionFolder, has_regions, load, store};
use crate::{BorrowedGuest, GuestDiskPlace, GuestError, GuestRegion, GuestReport, GuestRequest, GuestService, PmRange};

/// A pool on tmpfs and the file of a guest's disk.
pub(crate) struct LentRig(pub RegionFolder);

impl LentRig {
    /// Returns the pool, with the guest "g", and its owner.
    pub fn new() -> (Self, Arc<PoolOwner>) {
        let rig = Self(RegionFolder::new());
        let disk = File::create_new(rig.disk_path()).expect("a file");
        disk.set_len(PAGES * PAGE + DISK_STAMP_BYTES).expect("sized");
        let owner = rig.own();
        let disk = GuestDiskPlace { address: rig.disk_path().display().to_string(), path: PathBuf::new() };
        let size = PAGES * PAGE;
        let create =
            GuestRequest::Create { name: "g".into(), size, pm: Some(PmRange::fixed(CHUNK)), weight: None, disk };
        ask(&owner, &create).expect("created");
        (rig, owner)
    }

    pub fn disk_path(&self) -> PathBuf {
        self.0.path().join("disk")
    }

    /// Opens the pool as its owner.
    pub fn own(&self) -> Arc<PoolOwner> {
        let opener = |address: &str| match FileDisk::open(address.as_ref(), &FileDiskOptions::default()) {
            Ok(disk) => Ok(Arc::new(disk) as Arc<dyn Disk>),
            Err(why) => Err(why.to_string()),
        };
        let registry = Arc::new(ServiceRegistry::default().with(GuestService::new(Arc::new(opener))));
        match PoolAccess::open(&self.0.pool_path(), &registry, Some(Guard::None)).expect("it opens") {
            PoolAccess::Owner(owner) => owner,
            PoolAccess::Client(_) => panic!("another process owns it"),
        }
    }

    fn borrow(&self) -> Result<GuestRegion, GuestError> {
        let pool = self.0.pool_path();
        GuestRegion::borrow(BorrowedGuest { pool: &pool, name: "g", place: None, begin: || () })
    }
}

pub(crate) fn ask(owner: &PoolOwner, request: &GuestRequest) -> Result<GuestReport, Failure> {
    let reply = owner.call(ServiceRequest::of(request), &mut |_| true)?;
    Ok(serde_json::from_value(reply.value).expect("understood"))
}

fn stat() -> GuestRequest {
    GuestRequest::Stat { name: "g".into() }
}

fn flush() -> GuestRequest {
    GuestRequest::Flush { name: "g".into() }
}

/// Ends `owner` as a kill does: the pool is not closed.
pub(crate) fn kill(owner: Arc<PoolOwner>) {
    drop(Arc::into_inner(owner).expect("alone").end().expect("ended"));
}

/// Borrows a guest that the owner has opened. Returns the owner's refusal, if it refuses.
fn lend_an_open_guest(bug: Option<&'static str>) -> Option<String> {
    let (_rig, owner) = LentRig::new();
    ask(&owner, &stat()).expect("it opens");
    let _planted = bug.map(plant);
    let lent = owner.call(ServiceRequest::of(&GuestRequest::Lend { name: "g".into() }), &mut |_| true);
    lent.err().map(|failure| failure.message)
}

#[test]
fn canary_vg1_an_owner_that_keeps_its_engine_is_caught() {
    let why = lend_an_open_guest(Some("guest: the owner keeps the guest that it lends open"));
    assert!(why.is_some_and(|why| why.contains("in use by the pool's owner")));
}

/// VG1: while a process has the guest, no other process opens it, and the refusals name the process.
#[test]
fn vg1_a_guest_has_one_engine() {
    assert_eq!(lend_an_open_guest(None), None);
    if !has_regions() {
        return;
    }
    let (rig, owner) = LentRig::new();
    let used = owner.running().open_disk(owner.pool(), "g").expect("a service has it").expect("it opens");
    let refused = rig.borrow().err().expect("refused").to_string();
    assert!(refused.contains("in use"), "{refused}");
    drop(used);
    let region = rig.borrow().expect("lent");
    let pid = std::process::id();
    assert_eq!(ask(&owner, &stat()).expect("described").pid, Some(pid));
    let name = || "g".to_string();
    let requests = [
        flush(),
        GuestRequest::Export { name: name() },
        GuestRequest::Import { name: name() },
        GuestRequest::SetSize { name: name(), size: PAGE, lose: None },
    ];
    let asked = requests.iter().map(|request| ask(&owner, request).expect_err("refused").message);
    for refused in asked.chain([rig.borrow().err().expect("refused").to_string()]) {
        assert!(refused.contains(&format!("in use by process {pid}")), "{refused}");
    }
    store(region.region(), 3, 33);
    drop(region);
    assert_eq!(ask(&owner, &flush()).expect("flushed").pid, None);
}

/// The owner reports the counts of a guest that another process has, until it has ended.
#[test]
fn the_owner_reports_the_counts_of_a_lent_guest() {
    if !has_regions() {
        return;
    }
    let (rig, owner) = LentRig::new();
    let truths = || {
        let metrics = owner.metrics();
        let metric = metrics.iter().find(|metric| metric.name == "guest_truth_frames").expect("a metric of guests");
        metric.samples.first().and_then(|sample| sample.value.number())
    };
    let region = rig.borrow().expect("lent");
    (0..20).for_each(|page| store(region.region(), page, page + 1));
    // The thread of the batches publishes soon.
    let frames = || region.engine().counts().truth_frames as f64;
    let is_seen = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        truths() == Some(frames())
    });
    assert!(is_seen && frames() >= 20.0, "{:?} of {}", truths(), frames());
    assert!(ask(&owner, &stat()).expect("described").counts.is_some_and(|counts| counts.truth_frames >= 20));
    drop(region);
    assert_eq!(truths(), None, "no process has the guest");
}

/// The check reports no doubled page of a guest that another process has, and reports it once that has ended.
#[test]
fn a_page_that_moves_while_the_pool_is_checked_is_no_damage() {
    if !has_regions() {
        return;
    }
    let (rig, owner) = LentRig::new();
    let region = rig.borrow().expect("lent");
    store(region.region(), 0, 1);
    let word_place = |frame| region.engine().space.word_place(frame);
    let [used, other] = [0, CHUNK / PAGE - 1].map(|frame| word_place(frame as u32));
    let file = File::options().read(true).write(true).open(rig.0.pool_path()).expect("a file");
    let mut word = [0; 8];
    file.read_exact_at(&mut word, used).expect("read");
    file.write_all_at(&word, other).expect("written");
    let findings = || {
        let report = owner.call(ServiceRequest::of(&PoolRequest::Check), &mut |_| true).expect("checked");
        report.value["findings"].to_string()
    };
    assert_eq!(findings(), "[]");
    drop(region);
    assert!(findings().contains("both have page 0"), "{}", findings());
}

/// Stores into a lent guest before and after its owner ended, and ends the region under the next owner. Returns what failed.
fn outlive(bug: Option<&'static str>) -> Result<(), String> {
    let (rig, owner) = LentRig::new();
    let planted = bug.map(plant);
    let region = rig.borrow().expect("lent");
    store(region.region(), 0, 100);
    kill(owner);
    region.engine().write(PAGE, &[7; PAGE as usize]).map_err(|error| error.to_string())?;
    // Twice the frames, so that batches run.
    (2..CHUNK / PAGE * 2).for_each(|page| store(region.region(), page, page + 100));
    let owner = rig.own();
    let refused = ask(&owner, &flush()).expect_err("refused");
    assert_eq!(refused.kind, FailureKind::Busy, "{refused}");
    assert_eq!(load(region.region(), 2), 102);
    drop(region);
    drop(planted);
    ask(&owner, &flush()).map_err(|failure| failure.message)?;
    let disk = std::fs::read(rig.disk_path()).expect("read");
    for page in (0..CHUNK / PAGE * 2).filter(|page| *page != 1) {
        let word = &disk[(page * PAGE) as usize..][..8];
        assert_eq!(word, (page + 100).to_le_bytes(), "page {page}");
    }
    Ok(())
}

/// VG2, VG3 and HO7: the region goes on without an owner, and its grant ends with it.
#[test]
fn vg2_vg3_ho7_a_region_outlives_its_owner() {
    assert!(!has_regions() || outlive(None) == Ok(()));
}

#[test]
fn canary_vg2_a_lease_that_ends_with_its_owner_is_caught() {
    assert!(!has_regions() || outlive(Some("pool: a lease ends with its owner")).is_err());
}

#[test]
fn canary_vg3_a_grant_that_stays_is_caught() {
    // The bug is planted in this thread: the thread that answers accesses is late, and still not the last user.
    let _late = plant_in_process_with("guest: an access was answered", || {
        std::thread::sleep(Duration::from_millis(2));
        false
    });
    assert!(!has_regions() || outlive(Some("owner: only the lender ends a grant")).is_err());
}

/// VG4, VB1, VB4, VP2: a guest has its minimum when it is lent, and follows its share while a program stores into it.
#[test]
fn vg4_vb1_vb4_a_lent_guest_follows_its_share() {
    if !has_regions() {
        return;
    }
    let (rig, owner) = LentRig::new();
    let set = |chunks| {
        let pm = Some(PmRange::fixed(chunks * CHUNK));
        ask(&owner, &GuestRequest::Set { name: "g".into(), pm, weight: None }).expect("set");
    };
    let has = || ask(&owner, &stat()).expect("described").pm_bytes / CHUNK;
    set(2);
    let region = rig.borrow().expect("lent");
    assert_eq!(region.engine().frames(), 2 * CHUNK / PAGE);
    let pages = 3 * CHUNK / PAGE;
    for (round, chunks) in [1, 3, 2, 1, 3].into_iter().enumerate() {
        set(chunks);
        let start = std::time::Instant::now();
        let value = |page: u64| page + 7 + round as u64;
        (0..pages).for_each(|page| store(region.region(), page, value(page)));
        while has() != chunks || region.engine().frames() != chunks * CHUNK / PAGE {
            assert!(start.elapsed().as_secs() < 60, "{} of {chunks} chunks", has());
            (0..pages).step_by(97).for_each(|page| store(region.region(), page, value(page)));
            // Pages that are stored to all the time do not leave.
            std::thread::sleep(Duration::from_millis(20));
        }
        (0..pages).for_each(|page| assert_eq!(load(region.region(), page), value(page), "round {round}"));
    }
    drop(region);
    let region = rig.borrow().expect("lent");
    assert_eq!(region.engine().frames(), 3 * CHUNK / PAGE);
    (0..pages).for_each(|page| assert_eq!(load(region.region(), page), page + 11));
}

/// VG4, VB5: without its owner, and under the next one, a guest that a program has mapped keeps its memory.
#[test]
fn vg4_vb5_a_lent_guest_keeps_its_memory_without_its_owner() {
    if !has_regions() {
        return;
    }
    let (rig, owner) = LentRig::new();
    let set = |owner: &Arc<PoolOwner>, chunks| {
        let pm = Some(PmRange::fixed(chunks * CHUNK));
        ask(owner, &GuestRequest::Set { name: "g".into(), pm, weight: None }).expect("set")
    };
    set(&owner, 2);
    let region = rig.borrow().expect("lent");
    kill(owner);
    let pages = 3 * CHUNK / PAGE;
    (0..pages).for_each(|page| store(region.region(), page, page + 7));
    let owner = rig.own();
    assert_eq!(set(&owner, 1).pm_bytes, 2 * CHUNK);
    std::thread::sleep(Duration::from_millis(600));
    (0..pages).for_each(|page| store(region.region(), page, page + 8));
    assert_eq!(region.engine().frames(), 2 * CHUNK / PAGE);
    drop(region);
    let report = || ask(&owner, &stat()).expect("described");
    let start = std::time::Instant::now();
    while report().pm_bytes > CHUNK {
        assert!(start.elapsed().as_secs() < 60, "{:?}", report());
        std::thread::sleep(Duration::from_millis(20));
    }
    let region = rig.borrow().expect("lent");
    (0..pages).for_each(|page| assert_eq!(load(region.region(), page), page + 8));
}
