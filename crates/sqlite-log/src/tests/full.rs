//! A log in a pool without room.

use std::sync::Weak;

use ferrite_memory::{Guard, MapOptions, Mapped};
use ferrite_pool::layout::POOL_BYTES_MIN;
use ferrite_pool::{Caller, Error as PoolError, Format, Freeze, NewTag, PidFd, Pool, SpaceNeed, TagKind};

use super::*;

const BOOT: [u8; 16] = [7; 16];

fn take(pool: &Pool, name: &str, bytes: u64) -> ferrite_pool::Result<()> {
    let needs = [SpaceNeed { role: Role::DATA, zone: Zone::Normal, bytes }];
    let new = NewTag { name, kind: TagKind::BYTES, size: 0, attributes: [0; 64], needs: &needs };
    pool.create_tag(&new, |_| Ok(())).map(drop)
}

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

/// The grant of a log in many pieces needs a page for the list of them, and a database is opened also to delete from it.
#[test]
fn a_log_in_pieces_is_opened_in_a_full_pool_that_services_have_space_of() {
    let options = MapOptions { guard: Guard::None, ..MapOptions::default() };
    let memory = Arc::new(Mapped::anonymous(POOL_BYTES_MIN, &options).unwrap());
    Pool::create(&*memory, &Format { uuid: [7; 16], boot_id: BOOT }).unwrap();
    let pool = Arc::new(Pool::open(memory, BOOT).unwrap().0);
    let logs = DatabaseLogs::new(Arc::clone(&pool), BOOT);
    let pid = std::process::id();
    let caller = Caller { pid, uid: 0, process: PidFd::open(pid).unwrap(), connection: 0 };
    let ask = |request: DatabaseRequest| {
        logs.answer(&caller, request).map(|reply| serde_json::from_value(reply.value["id"].clone()))
    };
    let identity = DatabaseIdentity { device: 1, inode: 2, birth: 0, is_marked: false, stamp: None };
    let open = || ask(DatabaseRequest::Open { path: "/a.db".into(), identity, alone: false, fresh: 9 });
    let mut id = open().unwrap().unwrap();
    for pages in [17, 33, 65] {
        take(&pool, &format!("between {pages}"), 1).unwrap();
        id = ask(DatabaseRequest::Extend { id, file: JournalFile::Journal, bytes: pages * 4096 }).unwrap().unwrap();
    }
    take(&pool, "hoard", 1).unwrap();
    take(&pool, "rest", pool.usage().free_bytes).unwrap();
    assert!(matches!(open(), Err(Error::Pool(PoolError::Full { .. }))));
    let hoard: Arc<dyn Freeze> = Arc::new(Hoard(Arc::downgrade(&pool)));
    pool.register_freezer(Arc::downgrade(&hoard));
    open().unwrap().unwrap();
    assert!(pool.tag("hoard").is_err() && pool.usage().free_bytes == 0);
}
