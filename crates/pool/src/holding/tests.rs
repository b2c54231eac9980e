//! HO1 to HO6.

mod widen;

use ferrite_crash::{LyingMemory, Model};
use ferrite_memory::Scheme;

use super::*;
use crate::layout::PAGE;
use crate::tests::support::account;
use crate::tests::support::new_pool;
use crate::tests::support::open;
use crate::{TagKind, TagLog};

fn spec(name: &str, has_log: bool) -> TagSpec {
    let part = |role, bytes| RoleSpace { role, bytes };
    let parts = vec![part(Role::MAP, PAGE), part(Role::DATA, 4 * PAGE)];
    TagSpec { name: name.into(), kind: TagKind::OBJECT.0, size: 4 * PAGE, attributes: vec![7; 64], parts, has_log }
}

fn pool() -> Arc<Pool> {
    Arc::new(open(&new_pool(Model::MAPPED)))
}

#[test]
fn ho1_ho2_a_tag_is_held_once_and_stays_while_it_is() {
    let pool = pool();
    spec("a", false).create(&pool).unwrap();
    let first = pool.hold("a").unwrap();
    assert!(matches!(pool.hold("a"), Err(Error::Busy(_))));
    assert!(matches!(pool.remove_unheld("a"), Err(Error::Busy(_))));
    drop(first);
    drop(pool.hold("a").unwrap());
    pool.remove_unheld("a").unwrap();
    assert!(matches!(pool.hold("a"), Err(Error::NotFound(_))));
    account(&pool).unwrap();
}

/// A way to hold tag `a`.
type Hold = fn(&Arc<Pool>) -> Result<TagLease>;

fn as_it_stands(pool: &Arc<Pool>) -> Result<TagLease> {
    pool.hold("a")
}

/// HO2 is broken: the tag is not read again once no other process can lease it.
fn as_it_was_read(pool: &Arc<Pool>) -> Result<TagLease> {
    let tag = pool.tag("a")?;
    pool.holdings.tags.lock().insert(tag.generation);
    let listed = ListedTag { pool: Arc::clone(pool), generation: tag.generation };
    ensure_no_grant(pool, &tag)?;
    Ok(TagLease::own(Arc::clone(pool), tag, listed))
}

/// Leases tag `a` of `pool`; `between` runs between the reading of the tag and its listing.
fn hold_late(pool: &Arc<Pool>, hold: Hold, meanwhile: impl FnOnce(&Arc<Tag>)) -> Result<TagLease> {
    spec("a", false).create(pool).unwrap();
    let tag = pool.tag("a").unwrap();
    let list = pool.holdings.tags.lock();
    std::thread::scope(|scope| {
        let late = scope.spawn(|| hold(pool));
        // The pool has it, and this test; when the other thread has it too, that waits for the list.
        while Arc::strong_count(&tag) < 3 {
            std::thread::yield_now();
        }
        meanwhile(&tag);
        drop(list);
        late.join().unwrap()
    })
}

fn hold_removed(pool: &Arc<Pool>, hold: Hold) -> Result<TagLease> {
    hold_late(pool, hold, |tag| pool.remove_tag(tag).unwrap())
}

fn hold_widened(pool: &Arc<Pool>, hold: Hold) -> Result<TagLease> {
    let more = [RoleSpace { role: Role::DATA, bytes: 9 * PAGE }];
    hold_late(pool, hold, |tag| _ = widen(pool, tag, &more).unwrap())
}

#[test]
fn ho2_what_was_removed_before_it_was_listed_is_not_held() {
    let pool = pool();
    assert!(matches!(hold_removed(&pool, as_it_stands), Err(Error::NotFound(name)) if name == "a"));
    spec("a", false).create(&pool).unwrap();
    drop(pool.hold("a").unwrap());
}

#[test]
fn ho2_what_was_widened_before_it_was_listed_is_held_as_it_is() {
    assert_eq!(hold_widened(&pool(), as_it_stands).unwrap().stream(Role::DATA).len(), 9 * PAGE);
}

#[test]
fn canary_a_tag_that_is_held_as_it_was_read_is_caught() {
    let pool = pool();
    let removed = hold_removed(&pool, as_it_was_read).expect("nothing tells that it is gone");
    let thief = spec("b", false).create(&pool).unwrap();
    assert_eq!(removed.tag().extents, thief.extents, "two have the same pages");
    drop(removed);
    pool.remove_tag(&thief).unwrap();
    assert_eq!(
        hold_widened(&pool, as_it_was_read).unwrap().stream(Role::DATA).len(),
        4 * PAGE,
        "it knows of none of it"
    );
}

/// HO3: an image of every instant of the making opens, and holds no tag or one with an empty log.
#[test]
fn ho3_crash_a_tag_is_made_whole_or_not() {
    for model in Model::ALL {
        let memory = new_pool(model);
        let pool = Arc::new(open(&memory));
        memory.forget_trace();
        spec("a", true).create(&pool).unwrap();
        memory.mark(1);
        let report = ferrite_crash::explore(&memory, &crate::tests::support::options(1 << 8, 60), |crash| {
            let (_, pool) = crate::tests::support::reopen(crash)?;
            let pool = Arc::new(pool);
            let is_there = match pool.hold("a") {
                Ok(held) => {
                    let log = TagLog::open_within(Arc::new(held)).map_err(|error| error.to_string())?;
                    log.append(b"x").map_err(|error| error.to_string())?;
                    log.records().count() == 1
                }
                Err(Error::NotFound(_)) => crash.last_mark().is_none(),
                Err(_) => false,
            };
            if is_there { Ok(()) } else { Err("HO3: a tag that cannot be held".into()) }
        });
        report.assert_clean();
    }
}

#[test]
fn ho5_a_failed_persist_poisons() {
    let memory: Arc<LyingMemory> = new_pool(Model::FILE);
    let pool = Arc::new(open(&memory));
    spec("a", true).create(&pool).unwrap();
    let held = pool.hold("a").unwrap();
    memory.fail_nth(memory.calls());
    assert!(held.drain().is_err());
    assert!(matches!(held.check_poison(), Err(Error::Poisoned(_))));
}
