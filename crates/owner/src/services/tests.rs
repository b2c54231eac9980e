//! The built-in services in a full pool.

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Weak};

use ferrite_memory::{Guard, MapOptions, Mapped};
use ferrite_pool::layout::{PAGE, POOL_BYTES_MIN};
use ferrite_pool::{Claim, Format, Freeze, NewTag, Pool, Role, SpaceNeed, TagKind, Zone, claim};

use super::*;
use crate::{PoolMemory, PoolOwner, ServiceRegistry, ServiceRequest, machine};

/// A service that needs the tag `hoard` no more.
struct Hoard(Weak<Pool>);

impl Freeze for Hoard {
    fn freeze(&self) {}

    fn thaw(&self) {}

    fn spare(&self) -> bool {
        let pool = self.0.upgrade().expect("it is asked by it");
        pool.tag("hoard").is_ok_and(|tag| pool.remove_tag(&tag).is_ok())
    }
}

fn put(pool: &Pool, name: &str, pages: u64) -> ferrite_pool::Result<()> {
    let needs = [SpaceNeed { role: Role::DATA, zone: Zone::Normal, bytes: pages * PAGE }];
    let new = NewTag { name, kind: TagKind::BYTES, size: pages * PAGE, attributes: [0; 64], needs: &needs };
    pool.create_tag(&new, |_| Ok(())).map(drop)
}

/// The owner of a pool without room, with a value `a` of pages that lie apart.
fn full(folder: &Path) -> PoolOwner {
    let path = folder.join("pool");
    File::create(&path).and_then(|file| file.set_len(POOL_BYTES_MIN)).expect("a file");
    let Ok(Claim::Ours(lock)) = claim(&path) else { panic!("nobody else has it") };
    let options = MapOptions { guard: Guard::None, ..MapOptions::default() };
    let memory = Mapped::map(lock.file().try_clone().expect("a descriptor"), &options).expect("memory");
    Pool::create(&memory, &Format { uuid: [1; 16], boot_id: machine::boot_id().expect("read") }).expect("a pool");
    drop(memory);
    let memory = PoolMemory::map(&lock, Some(Guard::None)).expect("mapped");
    let owner = PoolOwner::open(lock, memory, &Arc::new(ServiceRegistry::default())).expect("it opens");
    let pool = owner.pool();
    put(pool, "hoard", 1).expect("room");
    let names: Vec<String> = (0..).map(|number| number.to_string()).take_while(|it| put(pool, it, 1).is_ok()).collect();
    let every_second = names.iter().step_by(2).take(5);
    every_second.for_each(|name| pool.tag(name).and_then(|tag| pool.remove_tag(&tag)).expect("it goes"));
    put(pool, "a", pool.usage().free_bytes / PAGE).expect("room");
    owner
}

/// The grant of a value in many pieces needs a page for the list of them, and it is mapped also to be read.
#[test]
fn a_value_in_pieces_is_granted_in_a_full_pool_that_services_have_space_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let owner = full(folder.path());
    let grant = || {
        let request = TagRequest::Grant { name: "a".into(), write: false };
        owner.call(ServiceRequest::of(&request), &mut |_| true)
    };
    let Err(refused) = grant() else { panic!("there is room") };
    assert!(refused.kind == FailureKind::Full && refused.message.starts_with("the pool is full"), "{refused}");
    let hoard: Arc<dyn Freeze> = Arc::new(Hoard(Arc::downgrade(owner.pool())));
    owner.pool().register_freezer(Arc::downgrade(&hoard));
    assert_eq!(grant().map(|reply| reply.fds.len()), Ok(2));
    assert!(owner.pool().tag("hoard").is_err());
}
