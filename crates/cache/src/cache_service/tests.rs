//! The service in a pool of this process, with members in memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use ferrite_disk::{Access, RamDisk};
use ferrite_memory::{Guard, MapOptions, Mapped};
use ferrite_owner::services::PoolRequest;
use ferrite_owner::{Error, PoolAccess, ServiceRegistry, ServiceRequest};
use ferrite_pool::Format;
use ferrite_pool::layout::CHUNK;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::*;
use crate::cache_reports::{CacheReport, CacheState};
use crate::cache_settings::CopyRule;

const DISK_BYTES: u64 = 8 << 20;

/// Disks in memory, by address. They stay when the pool is closed.
#[derive(Default)]
pub(crate) struct RamOpener(Mutex<BTreeMap<String, Arc<dyn Disk>>>);

impl MemberOpener for RamOpener {
    fn open(&self, address: &str) -> Result<Arc<dyn Disk>, String> {
        if address.starts_with("none") {
            return Err(format!("there is no {address}"));
        }
        let new = || Arc::new(RamDisk::new(DISK_BYTES)) as Arc<dyn Disk>;
        Ok(Arc::clone(self.0.lock().entry(address.into()).or_insert_with(new)))
    }
}

/// The time since the start of the test.
struct TestClock(std::time::Instant);

impl Clock for TestClock {
    fn now_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    fn wait_until_ns(&self, until_ns: u64) {
        std::thread::sleep(Duration::from_nanos(until_ns.saturating_sub(self.now_ns())));
    }
}

/// A pool in a file, and members in memory.
pub(crate) struct CachedWorld {
    _folder: tempfile::TempDir,
    path: PathBuf,
    opener: Arc<RamOpener>,
}

impl CachedWorld {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        let file = File::options().read(true).write(true).create_new(true).open(&path).expect("a file");
        file.set_len(16 * CHUNK).expect("sized");
        let memory = Mapped::map(file, &MapOptions { guard: Guard::None, ..MapOptions::default() }).expect("mapped");
        Pool::create(&memory, &Format { uuid: [7; 16], boot_id: machine::boot_id().expect("read") }).expect("a pool");
        Self { _folder: folder, path, opener: Arc::default() }
    }

    /// Returns the member at `address`.
    pub fn member(&self, address: &str) -> Arc<dyn Disk> {
        self.opener.open(address).expect("there")
    }

    pub fn open(&self) -> PoolAccess {
        let clock = Arc::new(TestClock(std::time::Instant::now()));
        let service = CacheService::new(self.opener.clone(), clock);
        let registry = Arc::new(ServiceRegistry::default().with(service));
        PoolAccess::open(&self.path, &registry, Some(Guard::None)).expect("it opens")
    }
}

fn member(address: &str) -> MemberAddress {
    MemberAddress { address: address.into(), path: PathBuf::new() }
}

/// A request for a cache of `ssds` SSDs before the disk `disk`.
pub(crate) fn create(name: &str, ssds: &[&str], settings: SettingsChange) -> CacheRequest {
    CacheRequest::Create {
        name: name.into(),
        disks: vec![NewCacheDisk { export: None, at: member("disk"), stamp: crate::StampPlace::Head }],
        ssds: ssds.iter().map(|ssd| member(ssd)).collect(),
        settings,
        leb_bytes: 64 << 10,
        buffer_bytes: 1 << 20,
        lose: None,
    }
}

pub(crate) fn ask<T: DeserializeOwned>(access: &mut PoolAccess, request: &impl TypedRequest) -> T {
    let reply = access.call(ServiceRequest::of(request), &mut |_| true).expect("answered");
    serde_json::from_value(reply.value).expect("understood")
}

fn refused(access: &mut PoolAccess, request: &CacheRequest) -> Failure {
    match access.call(ServiceRequest::of(request), &mut |_| true) {
        Err(Error::Failed(failure)) => failure,
        other => panic!("{:?}", other.map(|reply| reply.value)),
    }
}

fn write_back() -> SettingsChange {
    SettingsChange { mode: Some(CacheMode::WriteBack), ..SettingsChange::default() }
}

/// Opens the disk called `name`, as the service of disks does.
pub(crate) fn disk(access: &PoolAccess, name: &str) -> Arc<dyn Disk> {
    let owner = access.owner().expect("this process owns the pool");
    owner.running().open_disk(owner.pool(), name).expect("a service has it").expect("it opens")
}

fn close(access: PoolAccess) {
    let PoolAccess::Owner(owner) = access else { panic!("another process owns it") };
    assert!(Arc::into_inner(owner).expect("alone").close().expect("it closes"), "in order");
}

/// The way of a user: make, write, look, stop, start again, clean.
#[test]
fn a_cache_is_made_and_used_by_its_name_and_keeps_its_data_over_a_restart() {
    let world = CachedWorld::new();
    let mut access = world.open();
    let made: CreatedCache = ask(&mut access, &create("c", &["s0", "s1"], write_back()));
    assert_eq!((made.report.state, made.report.mode), (CacheState::Closed, CacheMode::WriteBack));
    let owner = access.owner().expect("ours");
    assert_eq!(owner.running().disk_names(), ["c"]);
    assert_eq!(owner.running().disk_of("c"), Some((CACHE, Some(DISK_BYTES - crate::STAMP_BYTES))));
    let listed: Vec<CacheReport> = ask(&mut access, &CacheRequest::List);
    assert_eq!((listed.len(), listed[0].state), (1, CacheState::Closed), "a list opens nothing");
    let front = disk(&access, "c");
    front.write(8192, &[5; 4096], Access::Cached).expect("written");
    drop(front);
    let stat: CacheStats = ask(&mut access, &CacheRequest::Stat { name: "c".into() });
    assert_eq!((stat.bytes.dirty, stat.requests.writes, stat.ssds.len()), (4096, 1, 2));
    close(access);

    let mut access = world.open();
    let opened: Vec<CacheReport> = ask(&mut access, &CacheRequest::OpenAll);
    assert_eq!((opened[0].dirty_bytes, opened[0].ssds_online), (Some(4096), Some(2)), "{opened:?}");
    assert_eq!(opened[0].recovery.expect("it was opened").dirty, 1);
    let mut block = [0; 4096];
    disk(&access, "c").read(8192, &mut block).expect("read");
    assert_eq!(block, [5; 4096]);
    let cleaned: CacheReport = ask(&mut access, &CacheRequest::Clean { name: "c".into() });
    assert_eq!(cleaned.dirty_bytes, Some(0));
    let raw = world.member("disk");
    raw.read(crate::STAMP_BYTES + 8192, &mut block).expect("read");
    assert_eq!(block, [5; 4096], "the disk has it");
    close(access);
}

/// A cancelled clean loses nothing and slows nothing down.
#[test]
fn a_cancelled_clean_keeps_what_is_dirty() {
    let world = CachedWorld::new();
    let mut access = world.open();
    let never = SettingsChange { destage_rate: Some(crate::RateChoice::Pages(0)), ..write_back() };
    ask::<CreatedCache>(&mut access, &create("c", &["s0", "s1"], never));
    disk(&access, "c").write(0, &[6; 4096], Access::Cached).expect("written");
    let clean = CacheRequest::Clean { name: "c".into() };
    match access.call(ServiceRequest::of(&clean), &mut |_| false) {
        Err(Error::Failed(failure)) => {
            assert_eq!(failure.kind, FailureKind::Cancelled);
            assert!(failure.message.contains("nothing is lost"), "{failure}");
        }
        Ok(_) => {} // The worker was faster.
        Err(other) => panic!("{other}"),
    }
    let mut block = [0; 4096];
    disk(&access, "c").read(0, &mut block).expect("read");
    assert_eq!(block, [6; 4096]);
    ask::<CacheReport>(&mut access, &clean);
}

/// Settings hold at once and after a restart.
#[test]
fn settings_change_while_the_cache_is_used_and_stay() {
    let world = CachedWorld::new();
    let mut access = world.open();
    ask::<CreatedCache>(&mut access, &create("c", &["s0", "s1"], write_back()));
    let front = disk(&access, "c");
    let change = SettingsChange { mode: Some(CacheMode::WriteThrough), bypass_bytes: Some(0), ..Default::default() };
    let report: CacheReport = ask(&mut access, &CacheRequest::Set { name: "c".into(), settings: change });
    assert_eq!(report.mode, CacheMode::WriteThrough);
    front.write(0, &[7; 4096], Access::Cached).expect("written");
    let mut block = [0; 4096];
    world.member("disk").read(crate::STAMP_BYTES, &mut block).expect("read");
    assert_eq!(block, [7; 4096], "written through");
    drop(front);
    close(access);
    let stat: CacheStats = ask(&mut world.open(), &CacheRequest::Stat { name: "c".into() });
    assert_eq!((stat.settings.mode, stat.settings.bypass_bytes), (CacheMode::WriteThrough, 0));
}

#[test]
fn a_default_that_a_user_may_not_expect_is_said() {
    let world = CachedWorld::new();
    let mut access = world.open();
    let made: CreatedCache = ask(&mut access, &create("c", &["s0"], SettingsChange::default()));
    assert_eq!(made.report.mode, CacheMode::WriteThrough);
    assert!(made.notes[0].contains("one SSD") && made.notes[0].contains("--mode write-back"), "{:?}", made.notes);
}

#[test]
fn a_new_cache_writes_through_if_its_ssds_may_lose_what_its_pool_keeps() {
    let world = CachedWorld::new();
    let made: CreatedCache = ask(&mut world.open(), &create("c", &["s0", "s1"], SettingsChange::default()));
    assert_eq!(made.report.mode, CacheMode::WriteThrough);
    assert!(made.notes[0].contains("power failure may lose"), "{:?}", made.notes);
}

/// Nothing of a refused cache is left.
#[test]
fn what_cannot_be_a_cache_is_refused_with_the_way_out() {
    let world = CachedWorld::new();
    let mut access = world.open();
    let one = SettingsChange { copies: Some(CopyRule::Dirty), ..write_back() };
    let rows = [
        (create("c", &["s0"], one), FailureKind::Refused, "the copies `one`"),
        (create("c", &["s0", "s0"], write_back()), FailureKind::Refused, "named twice"),
        (create("c", &["s0", "disk"], write_back()), FailureKind::Refused, "named twice"),
        (create("c", &["none", "s1"], write_back()), FailureKind::Refused, "there is no none"),
        (create("", &["s0", "s1"], write_back()), FailureKind::BadName, ""),
        (CacheRequest::Stat { name: "c".into() }, FailureKind::NotFound, "ferrite cache create"),
    ];
    for (request, kind, why) in rows {
        let failure = refused(&mut access, &request);
        assert_eq!(failure.kind, kind, "{failure}");
        assert!(failure.message.contains(why), "{failure}");
    }
    assert_eq!(ask::<Vec<CacheReport>>(&mut access, &CacheRequest::List), []);
    ask::<CreatedCache>(&mut access, &create("c", &["s0", "s1"], write_back()));
    let failure = refused(&mut access, &create("c", &["s2", "s3"], write_back()));
    assert_eq!(failure.kind, FailureKind::Exists);
    assert!(failure.message.contains("`ferrite cache remove`"), "{failure}");
    let report: Value = ask(&mut access, &PoolRequest::Check);
    assert_eq!(report["findings"], serde_json::json!([]), "the check reads a sound cache");
}
