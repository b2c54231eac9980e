//! KI1: saves beside a client that may store through a grant.

use ferrite_memory::planted::plant;

use super::kept::{FROZEN, image_disk, kept, restored_kept};
use super::*;
use crate::grant::{GrantRequest, GrantRights, Process};
use crate::layout::{GRANTS, SLOT};
use crate::{Caller, PidFd};

const BESIDE: SaveOptions<'static> = SaveOptions { beside_clients: true, ..FROZEN };

/// Makes a tag of one page, to which a client, this process, may store. Returns the page's offset.
fn lend(pool: &Pool) -> u64 {
    let caller =
        Caller { pid: std::process::id(), uid: 0, process: PidFd::open(std::process::id()).unwrap(), connection: 0 };
    let needs = [SpaceNeed { role: Role::DATA, zone: Zone::Normal, bytes: PAGE }];
    let new = NewTag { name: "lent", kind: TagKind(77), size: PAGE, attributes: [0; 64], needs: &needs };
    let tag = pool.create_tag(&new, |_| Ok(())).unwrap();
    let process = Process::of(&caller, BOOT);
    let (extents, rights) = (&tag.extents[..], GrantRights::ReadWrite);
    pool.grant(&GrantRequest { tag: &tag, extents, rights, process: &process }).unwrap();
    tag.extents[0].page * PAGE
}

/// Saves beside a client that stores to its page before, during and after the copy of the page. Returns the result.
fn saved_beside_a_client() -> Result<SaveReport> {
    let (memory, pool) = make(POOL_BYTES_MIN);
    let at = lend(&pool);
    let disk = image_disk(&pool);
    let mut image = kept(&disk);
    let first = image.save(&pool, &BESIDE, &mut quiet).expect("the client stores nothing");
    assert!(matches!(image.save(&pool, &FROZEN, &mut quiet), Err(Error::Busy(_))));
    let mut value = 0;
    let mut store = |_: Progress| {
        value += 1;
        memory.store_word(at, value);
        true
    };
    let saved = image.save(&pool, &BESIDE, &mut store);
    if saved.is_err() {
        assert_eq!(kept(&disk).last(), Some(first.save));
        image.save(&pool, &BESIDE, &mut quiet).expect("the client stores nothing any more");
        let restored = blank(POOL_BYTES_MIN);
        restored_kept(&disk, &restored).unwrap();
        assert_eq!(restored.load_word(at), value);
    }
    saved
}

#[test]
fn ki1_a_save_during_which_a_client_stores_does_not_count() {
    let saved = saved_beside_a_client();
    assert!(matches!(saved, Err(Error::Busy(_))), "{saved:?}");
}

/// KI1, SN3: a process that is given a part of the pool during a save could store past the snapshot.
#[test]
fn ki1_a_save_during_which_a_part_is_shared_does_not_count() {
    let inner = blank(POOL_BYTES_MIN);
    Pool::create(&*inner, &Format { uuid: [1; 16], boot_id: BOOT }).unwrap();
    let snapshot = Arc::new(PoolSnapshot::new(inner.clone()));
    let pool = Pool::open(snapshot.clone(), BOOT).unwrap().0;
    let disk = image_disk(&pool);
    let mut image = kept(&disk);
    let options = SaveOptions { snapshot: Some(&snapshot), ..FROZEN };
    let first = image.save(&pool, &options, &mut quiet).unwrap();
    let mut share = |_: Progress| {
        let _ = pool.memory().share(Span::new(0, PAGE));
        true
    };
    assert!(matches!(image.save(&pool, &options, &mut share), Err(Error::Busy(_))));
    assert_eq!(kept(&disk).last(), Some(first.save));
    image.save(&pool, &options, &mut quiet).expect("nothing is shared any more");
}

#[test]
fn canary_a_client_that_stores_during_a_save_is_caught() {
    let _bug = plant("kept: clients that store are not noticed");
    assert!(saved_beside_a_client().is_ok());
}

/// BK1, KI1: returns the kinds of the failures of a backup and of a save while a grant slot cannot be read.
fn refusals_beside_a_damaged_slot() -> [Option<bool>; 2] {
    let (memory, pool) = make(POOL_BYTES_MIN);
    let disk = image_disk(&pool);
    memory.store_word(GRANTS + 5 * SLOT + 8, 1);
    let is_busy = |error: Option<Error>| error.map(|error| matches!(error, Error::Busy(_)));
    let backed_up = backup(&pool, &mut Vec::new(), IMAGE, &mut quiet).err();
    let saved = kept(&disk).save(&pool, &FROZEN, &mut quiet).err();
    kept(&disk).save(&pool, &BESIDE, &mut quiet).expect("the last save counts, because nothing is stored during it");
    [backed_up, saved].map(is_busy)
}

#[test]
fn bk1_a_grant_slot_that_cannot_be_read_counts_as_a_client() {
    assert_eq!(refusals_beside_a_damaged_slot(), [Some(true); 2]);
}

#[test]
fn canary_a_damaged_grant_slot_that_counts_as_no_client_is_caught() {
    let _bug = plant("grant: a slot that cannot be read is no client");
    assert_eq!(refusals_beside_a_damaged_slot(), [None; 2]);
}
