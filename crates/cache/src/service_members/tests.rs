use std::path::PathBuf;

use ferrite_disk::{Access, Disk};
use ferrite_owner::{Error, PoolAccess, ServiceRequest};
use serde_json::Value;

use super::*;
use crate::cache_reports::CreatedCache;
use crate::cache_service::tests::{CachedWorld, ask, create, disk};
use crate::settings_change::SettingsChange;
use crate::{CacheMode, SsdState, StampPlace};

fn member(address: &str) -> MemberAddress {
    MemberAddress { address: address.into(), path: PathBuf::new() }
}

fn refused(access: &mut PoolAccess, request: &CacheRequest) -> Failure {
    match access.call(ServiceRequest::of(request), &mut |_| true) {
        Err(Error::Failed(failure)) => failure,
        other => panic!("{:?}", other.map(|reply| reply.value)),
    }
}

/// Makes a write-back cache called `c`.
fn make(access: &mut PoolAccess) {
    let settings = SettingsChange { mode: Some(CacheMode::WriteBack), ..SettingsChange::default() };
    ask::<CreatedCache>(access, &create("c", &["s0", "s1"], settings));
}

fn write(disk: &dyn Disk, byte: u8) {
    disk.write(4096, &[byte; 4096], Access::Cached).expect("written");
}

fn read(disk: &dyn Disk) -> u8 {
    let mut block = [0; 4096];
    disk.read(4096, &mut block).expect("read");
    assert!(block.iter().all(|byte| *byte == block[0]), "a torn block");
    block[0]
}

/// The way of a user who replaces an SSD.
#[test]
fn an_ssd_is_replaced_while_the_cache_is_used() {
    let world = CachedWorld::new();
    let mut access = world.open();
    make(&mut access);
    let front = disk(&access, "c");
    write(&*front, 5);
    let name = || "c".to_string();
    let added: SsdStats = ask(&mut access, &CacheRequest::AddSsd { name: name(), ssd: member("s2"), lose: None });
    assert_eq!((added.id, added.state), (2, SsdState::Online));
    let left: CacheReport = ask(&mut access, &CacheRequest::RemoveSsd { name: name(), id: 0, lose: None });
    assert_eq!((left.ssds, left.ssds_online), (2, Some(2)));
    assert_eq!(read(&*front), 5);
    let failure = refused(&mut access, &CacheRequest::KeepSsd { name: name(), id: 0 });
    assert_eq!(failure.kind, FailureKind::NotFound, "{failure}");
    let failure = refused(&mut access, &CacheRequest::Online { name: name(), id: 1, lose: None });
    assert_eq!(failure.kind, FailureKind::Refused, "{failure}");
}

/// Disks come and go by their own names, and share the SSDs.
#[test]
fn a_disk_joins_under_a_name_and_leaves_clean() {
    let world = CachedWorld::new();
    let mut access = world.open();
    make(&mut access);
    let new = |export: Option<&str>| CacheRequest::AddDisk {
        name: "c".into(),
        disk: NewCacheDisk { export: export.map(Into::into), at: member("disk2"), stamp: StampPlace::Head },
    };
    assert!(refused(&mut access, &new(None)).message.contains("NAME=DISK"));
    assert_eq!(refused(&mut access, &new(Some("c"))).kind, FailureKind::Exists);
    let added: DiskStats = ask(&mut access, &new(Some("two")));
    assert!(added.is_open, "{added:?}");
    let front = disk(&access, "two");
    write(&*front, 6);
    assert_eq!(read(&*front), 6);
    let remove = CacheRequest::RemoveDisk { name: "c".into(), export: "two".into() };
    assert_eq!(refused(&mut access, &remove).kind, FailureKind::Busy, "a client has it");
    drop(front);
    ask::<CacheReport>(&mut access, &CacheRequest::Clean { name: "c".into() });
    let left: CacheReport = ask(&mut access, &remove);
    assert_eq!(left.disks, ["c"]);
}

/// A removed cache leaves its data on the disk, and its name and members free.
#[test]
fn a_removed_cache_leaves_the_disk_complete_and_its_members_free() {
    let world = CachedWorld::new();
    let mut access = world.open();
    make(&mut access);
    write(&*disk(&access, "c"), 7);
    ask::<Value>(&mut access, &CacheRequest::Remove { name: "c".into(), lose: None });
    assert_eq!(ask::<Vec<CacheReport>>(&mut access, &CacheRequest::List), []);
    let mut block = [0; 4096];
    world.member("disk").read(crate::STAMP_BYTES + 4096, &mut block).expect("read");
    assert_eq!(block, [7; 4096], "the disk has it");
    let owner = access.owner().expect("ours");
    assert_eq!(owner.pool().members().expect("read"), [], "no member is left");
}

/// The clean part goes, what is dirty stays.
#[test]
fn dropping_and_forgetting_never_lose_what_is_dirty() {
    let world = CachedWorld::new();
    let mut access = world.open();
    make(&mut access);
    let never = SettingsChange {
        destage_rate: Some(crate::RateChoice::Pages(0)),
        dirty_age_ns: Some(0),
        ..SettingsChange::default()
    };
    ask::<CacheReport>(&mut access, &CacheRequest::Set { name: "c".into(), settings: never });
    write(&*disk(&access, "c"), 8);
    ask::<DroppedContent>(&mut access, &CacheRequest::Drop { name: "c".into() });
    assert_eq!(read(&*disk(&access, "c")), 8);
    let failure = refused(&mut access, &CacheRequest::Forget { name: "c".into(), lose: 0 });
    assert!(failure.message.contains("--lose 4096"), "{failure}");
    let failure = refused(&mut access, &CacheRequest::Remove { name: "c".into(), lose: Some(1) });
    assert!(failure.message.contains("--lose 4096"), "{failure}");
    assert_eq!(read(&*disk(&access, "c")), 8, "it opens again");
    let forgotten: ForgottenContent = ask(&mut access, &CacheRequest::Forget { name: "c".into(), lose: 4096 });
    assert_eq!(forgotten.missed, Vec::<String>::new());
    assert_eq!(read(&*disk(&access, "c")), 0, "the disk never had it");
}
