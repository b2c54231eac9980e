//! Stores in files: made, shared, backed up, finalized.

mod check;
mod counted;
mod finalize;

use std::fs::File;

use ferrite_memory::{Scheme, Survives};
use ferrite_pool::holding::{RoleSpace, TagSpec};
use ferrite_pool::layout::{PAGE, POOL_BYTES_MIN};
use ferrite_pool::{Role, TagKind};

use super::*;
use crate::{Logging, QueueEnd};

const NEW: NewStore = NewStore { bytes: POOL_BYTES_MIN + (16 << 20), uuid: *b"a store of tests" };
const OPEN: OpenStore = OpenStore { guard: Some(Guard::None), services: None };
const SMALL: Logging =
    Logging { log_bytes: 16 << 10, checkpoint_records: 0, checkpoint_bytes: 8 << 10, salvage: false };

/// The pool of a store that this process owns.
fn owned(store: &Store) -> &Arc<Pool> {
    store.own().expect("this process owns it").pool()
}

struct Place {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

fn place() -> Place {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    Place { _folder: folder, path }
}

fn fill(store: &Store) {
    store.map("map", SMALL).unwrap().put(b"key", b"value").unwrap();
    store.queue("queue", SMALL).unwrap().push(QueueEnd::Back, b"entry").unwrap();
    store.log("log", SMALL).unwrap().append(b"line").unwrap();
    store.direct("direct", &0u64, Scheme::Flush).unwrap().set(&42).unwrap();
}

fn assert_filled(store: &Store) {
    assert_eq!(store.map("map", SMALL).unwrap().get(b"key"), Some(b"value".to_vec()));
    assert_eq!(store.queue("queue", SMALL).unwrap().get(0), Some(b"entry".to_vec()));
    assert_eq!(store.log("log", SMALL).unwrap().get(0).unwrap(), Some(b"line".to_vec()));
    assert_eq!(store.direct("direct", &0u64, Scheme::Flush).unwrap().get(), 42);
}

#[test]
fn what_was_put_is_there_after_a_finalize_and_after_a_drop() {
    let place = place();
    let store = Store::initialize(&place.path, &NEW, &OPEN).unwrap();
    assert!(matches!(Store::initialize(&place.path, &NEW, &OPEN), Err(Error::Pool(_))), "never over what is there");
    assert_eq!(fs::read_dir(place._folder.path()).unwrap().count(), 2, "the store and its socket");
    fill(&store);
    let names: Vec<String> = store.tags().unwrap().into_iter().map(|note| note.name).collect();
    assert_eq!(names, ["direct", "log", "map", "queue"]);
    store.finalize(&Finish::default()).unwrap();
    let store = Store::open(&place.path, &OPEN).unwrap();
    assert!(store.recovery().unwrap().clean && store.survival().unwrap().process_crash.survives == Survives::Yes);
    assert_filled(&store);
    drop(store);
    let store = Store::open(&place.path, &OPEN).unwrap();
    assert!(!store.recovery().unwrap().clean);
    assert_filled(&store);
    store.free("map").unwrap();
    assert!(!store.contains("map").unwrap());
    let pool = owned(&store);
    pool.put("bytes", &mut &b"bytes"[..], &ferrite_pool::PutOptions::default()).unwrap();
    assert!(matches!(store.free("bytes"), Err(Error::Refused(why)) if why.contains("no object")));
    assert!(matches!(store.free("map"), Err(Error::Pool(PoolError::NotFound(_)))));
}

/// A device is there before there is a store on it, and after that too.
/// Of two that make it at once one does, and has it whole.
#[test]
fn a_store_is_made_once_however_many_threads_make_it() {
    for round in 0..20 {
        let (place, start) = (place(), std::sync::Barrier::new(2));
        let make = |number| {
            let new = NewStore { uuid: [number; 16], ..NEW };
            start.wait();
            Store::initialize(&place.path, &new, &OPEN)
        };
        let made = std::thread::scope(|scope| {
            let other = scope.spawn(|| make(1));
            [make(2), other.join().unwrap()]
        });
        let refusals: Vec<String> = made.iter().filter_map(|made| Some(made.as_ref().err()?.to_string())).collect();
        assert!(refusals.len() == 1 && refusals[0].contains("exists already: open it"), "round {round}: {refusals:?}");
        fill(made.iter().flatten().next().unwrap());
    }
}

#[test]
fn a_link_in_the_place_of_a_store_that_is_being_made_is_not_followed() {
    let place = place();
    let precious = place._folder.path().join("precious");
    fs::write(&precious, b"precious").unwrap();
    let partial = format!("{}.{}.new", place.path.display(), ferrite_pool::show_uuid(&NEW.uuid));
    std::os::unix::fs::symlink(&precious, partial).unwrap();
    Store::initialize(&place.path, &NEW, &OPEN).unwrap_err();
    assert_eq!(fs::read(&precious).unwrap(), b"precious");
}

#[test]
fn a_size_that_no_store_has_is_told_and_leaves_nothing() {
    let place = place();
    for (bytes, words) in [(10, "too small: 8 MiB at least"), (u64::MAX, "too large: 8388608.0 TiB at most")] {
        let error = Store::initialize(&place.path, &NewStore { bytes, ..NEW }, &OPEN).unwrap_err();
        assert!(matches!(error, Error::Pool(PoolError::Limit(_))) && error.to_string().ends_with(words), "{error}");
        assert_eq!(fs::read_dir(place._folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn a_file_too_short_to_be_mapped_is_no_pool() {
    let place = place();
    for bytes in [&b""[..], b"less than a page"] {
        fs::write(&place.path, bytes).unwrap();
        let error = Store::open(&place.path, &OPEN).unwrap_err();
        assert!(matches!(error, Error::Pool(PoolError::NotAPool(_))), "{error}");
        assert_eq!(fs::read(&place.path).unwrap(), bytes);
    }
}

#[test]
fn a_log_that_no_store_has_room_for_is_refused_and_leaves_nothing() {
    let place = place();
    let store = Store::initialize(&place.path, &NEW, &OPEN).unwrap();
    for log_bytes in [u64::MAX, u64::MAX - 4096, 1 << 60] {
        let error = store.map("map", Logging { log_bytes, ..SMALL }).unwrap_err();
        assert!(matches!(&error, Error::Pool(full) if full.is_want_of_space()), "{error}");
    }
    fill(&store);
}

#[test]
fn no_store_is_made_over_a_pool() {
    let place = place();
    fill(&Store::initialize(&place.path, &NEW, &OPEN).unwrap());
    let lock = ours(&place.path).unwrap();
    assert!(
        matches!(medium::format(&lock, [1; 16]), Err(Error::Pool(PoolError::Occupied(why))) if why.contains("holds a pool"))
    );
    drop(lock);
    assert_filled(&Store::open(&place.path, &OPEN).unwrap());
}

#[test]
fn an_open_object_is_opened_once_and_not_freed_and_holds_up_a_finalize() {
    let place = place();
    let store = Store::initialize(&place.path, &NEW, &OPEN).unwrap();
    let map = store.map("map", SMALL).unwrap();
    assert!(matches!(store.map("map", SMALL), Err(Error::Pool(PoolError::Busy(_)))));
    assert!(matches!(store.free("map"), Err(Error::Pool(PoolError::Busy(_)))));
    drop(map);
    assert!(matches!(store.queue("map", SMALL), Err(Error::WrongType { .. })));
    let map = store.map("map", SMALL).unwrap();
    assert!(store.is_in_use());
    assert!(store.finalize(&Finish::default()).unwrap_err().to_string().contains("drop them first"));
    assert!(matches!(claim(&place.path), Ok(Claim::Held(_))), "nobody else owns it while an object is stored into");
    drop(map);
    assert!(matches!(claim(&place.path), Ok(Claim::Ours(_))));
}

/// A client that is connected or being answered does not keep a store in use.
#[test]
fn a_store_whose_clients_are_being_answered_is_not_in_use() {
    let place = place();
    let store = Store::initialize(&place.path, &NEW, &OPEN).unwrap();
    let pool = owned(&store);
    let answering = Arc::clone(pool);
    assert!(!store.is_in_use());
    let map = store.map("map", SMALL).unwrap();
    assert!(store.is_in_use());
    drop((map, answering));
    assert!(!store.is_in_use());
}

/// HO1: the second one to come works through the first, on the same memory.
#[test]
fn a_tenant_does_all_that_an_owner_does() {
    let place = place();
    let owner = Store::initialize(&place.path, &NEW, &OPEN).unwrap();
    let tenant = Store::open(&place.path, &OPEN).unwrap();
    assert_eq!((owner.owner_pid(), tenant.owner_pid()), (None, Some(std::process::id())));
    fill(&tenant);
    assert_filled(&owner);
    let map = tenant.map("map", SMALL).unwrap();
    let error = owner.map("map", SMALL).unwrap_err().to_string();
    assert!(error.contains("in use by process"), "{error}");
    // Checkpoints grow beyond their first slot: the owner gives the space.
    (0..2000u32).for_each(|number| map.put(&number.to_le_bytes(), &[7; 40]).unwrap());
    let image = place.path.with_extension("image");
    assert!(matches!(owner.backup(&image, [1; 16]), Err(Error::Pool(PoolError::Busy(_)))), "not of one moment");
    map.put(b"after", b"a refusal costs it nothing").unwrap();
    drop(map);
    tenant.backup(&image, [1; 16]).unwrap();
    assert_eq!(owner.map("map", SMALL).unwrap().len(), 2002);
    tenant.free("map").unwrap();
    let pool = owned(&owner);
    let parts = [Role::MAP, Role::DATA].map(|role| RoleSpace { role, bytes: PAGE }).to_vec();
    let (name, kind, attributes) = ("a database's".into(), TagKind::LOG.0, Vec::new());
    TagSpec { name, kind, size: PAGE, attributes, parts, has_log: true }.create(pool).unwrap();
    assert!(matches!(tenant.free("a database's"), Err(Error::Refused(why)) if why.contains("of kind log")));
    assert!(owner.contains("a database's").unwrap());
    assert!(tenant.finalize(&Finish { defragment: true, backup: None }).is_err());
    owner.finalize(&Finish::default()).unwrap();
    let restored = place.path.with_extension("restored");
    Store::restore(&image, &restored, None).unwrap();
    assert_eq!(Store::open(&restored, &OPEN).unwrap().map("map", SMALL).unwrap().len(), 2002);
}

/// After a refusal the store is still open and its clients have lost nothing.
#[test]
fn what_is_refused_before_the_end_leaves_the_store_open() {
    let place = place();
    let store = Store::initialize(&place.path, &NEW, &OPEN).unwrap();
    let tenant = Store::open(&place.path, &OPEN).unwrap();
    let map = tenant.map("map", SMALL).unwrap();
    let finish = Finish { defragment: true, backup: Some((place.path.with_extension("image"), [1; 16])) };
    assert!(matches!(store.prepare(&finish), Err(Error::Pool(PoolError::Busy(_)))));
    assert!(matches!(tenant.prepare(&finish), Err(Error::Refused(_))));
    map.put(b"key", b"value").unwrap();
    drop(map);
    assert!(matches!(tenant.prepare(&Finish { backup: None, ..finish.clone() }), Err(Error::Refused(_))));
    tenant.finalize(&Finish::default()).unwrap();
    store.prepare(&finish).unwrap();
    assert_eq!(store.map("map", SMALL).unwrap().get(b"key"), Some(b"value".to_vec()));
    store.finalize(&finish).unwrap();
}

/// As `ferrite pool restore` does it: a new file is made, an empty one takes its size, and nothing is left of what fails.
#[test]
fn a_backup_is_restored_into_a_new_file_or_one_that_has_room() {
    let place = place();
    let at = |name: &str| place._folder.path().join(name);
    let store = Store::initialize(&place.path, &NEW, &OPEN).unwrap();
    fill(&store);
    store.backup(&at("image"), [9; 16]).unwrap();
    let restore = |name: &str, lose| Store::restore(&at("image"), &at(name), lose).map_err(|error| error.to_string());
    fs::write(at("empty"), b"").unwrap();
    fs::write(at("text"), b"text").unwrap();
    assert!(restore("text", None).unwrap_err().contains("--lose 4 "));
    assert!(restore("text", Some(5)).unwrap_err().contains("--lose 4 "));
    assert_eq!(fs::read(at("text")).unwrap(), b"text");
    for (name, lose) in [("new", None), ("empty", None), ("text", Some(4))] {
        restore(name, lose).unwrap();
        assert_filled(&Store::open(&at(name), &OPEN).unwrap());
        assert_eq!(fs::metadata(at(name)).unwrap().len(), NEW.bytes, "{name}");
    }
    assert!(restore("image", Some(4)).unwrap_err().contains("is the image itself"));
    let mut image = fs::read(at("image")).unwrap();
    let last = image.len() - 1;
    image[last] ^= 1;
    fs::write(at("image"), image).unwrap();
    restore("other", None).unwrap_err();
    assert!(!at("other").exists(), "a damaged image makes nothing");
}

/// A process that holds an object when the store's owner ends would go on storing into the object's place.
#[test]
fn no_store_is_restored_under_those_who_still_hold_objects_of_it() {
    let place = place();
    let owner = Store::initialize(&place.path, &NEW, &OPEN).unwrap();
    fill(&owner);
    let image = place._folder.path().join("image");
    owner.backup(&image, [9; 16]).unwrap();
    let tenant = Store::open(&place.path, &OPEN).unwrap();
    let map = tenant.map("map", SMALL).unwrap();
    drop(owner);
    let error = Store::restore(&image, &place.path, Some(NEW.bytes)).unwrap_err().to_string();
    assert!(error.contains(&format!("({}): end them first", std::process::id())), "{error}");
    drop((map, tenant));
    assert_filled(&Store::open(&place.path, &OPEN).unwrap());
    Store::restore(&image, &place.path, Some(NEW.bytes)).unwrap();
    assert_filled(&Store::open(&place.path, &OPEN).unwrap());
}

#[test]
fn finalize_defragments_and_backs_up_when_asked() {
    let place = place();
    let store = Store::initialize(&place.path, &NEW, &OPEN).unwrap();
    fill(&store);
    for name in ["a", "b", "c"] {
        drop(store.log(name, Logging { log_bytes: 3 << 20, ..SMALL }).unwrap());
    }
    store.free("a").unwrap();
    store.free("b").unwrap();
    let map = store.map("map", SMALL).unwrap();
    (0..1000u32).for_each(|number| map.put(&number.to_le_bytes(), &[7; 40]).unwrap());
    drop(map);
    let image = place.path.with_extension("image");
    let finish = Finish { defragment: true, backup: Some((image.clone(), [1; 16])) };
    let done = store.finalize(&finish).unwrap().defragmented.unwrap();
    assert!(done.moved_bytes > 0 && done.left.is_empty(), "{done:?}");
    let store = Store::open(&place.path, &OPEN).unwrap();
    assert_filled(&store);
    drop(store);
    assert!(Store::restore(&image, &place.path, None).is_err(), "not over a pool that is there");
    Store::restore(&image, &place.path, Some(NEW.bytes)).unwrap();
    assert_filled(&Store::open(&place.path, &OPEN).unwrap());
}

#[test]
fn a_check_knows_objects_and_tells_their_damage() {
    let place = place();
    let store = Store::initialize(&place.path, &NEW, &OPEN).unwrap();
    fill(&store);
    let pool = owned(&store);
    let mut owners = TagOwners::default();
    owners.register(Box::new(ObjectService));
    let check = || ferrite_pool::check::check_open(pool, &owners, &mut |_| ());
    assert!(check().is_sound() && check().findings.is_empty(), "{:?}", check());
    let tag = pool.tag("direct").unwrap();
    pool.memory().store(tag.extents[0].span().at, &[1; 128], Scheme::Nt);
    let report = check();
    assert!(!report.is_sound() && report.findings[0].tag.as_deref() == Some("direct"), "{report:?}");
}

/// CK4: a checkpoint's word of zeros says that no checkpoint was made. The start of the log shows that one was.
#[test]
fn ck4_a_check_tells_a_checkpoint_that_nothing_names_any_more() {
    let place = place();
    let store = Store::initialize(&place.path, &NEW, &OPEN).unwrap();
    fill(&store);
    store.map("map", SMALL).unwrap().checkpoint().unwrap();
    let pool = owned(&store);
    let word = crate::object_word::place(&pool.tag("map").unwrap()).unwrap();
    pool.memory().store_word(word, 0);
    assert!(matches!(store.map("map", SMALL), Err(Error::Damaged { .. })));
    let mut owners = TagOwners::default();
    owners.register(Box::new(ObjectService));
    let report = ferrite_pool::check::check_open(pool, &owners, &mut |_| ());
    let found: Vec<_> = report.findings.iter().map(|it| (it.tag.as_deref(), it.at)).collect();
    assert_eq!((report.is_sound(), found), (false, vec![(Some("map"), Some(word))]));
}
