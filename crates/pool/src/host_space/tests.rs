//! A3: what the host has back, on one with less than the pool is large.

mod crashes;

use std::collections::BTreeSet;
use std::sync::Arc;

use ferrite_crash::{LyingMemory, Model};
use ferrite_memory::{Memory, Result as MediumResult, Scheme, Span, forward_memory};
use parking_lot::Mutex;

use crate::Caller;
use crate::PidFd;
use crate::Progress;
use crate::check::{TagOwners, repair};
use crate::defrag::defrag;
use crate::grant::{GrantRequest, GrantRights, Process};
use crate::layout::{CHUNK, CHUNK_PAGES, PAGE, kind_at};
use crate::tag::INLINE;
use crate::tests::support::BOOT;
use crate::tests::support::account;
use crate::tests::support::format;
use crate::tests::support::new_pool;
use crate::tests::support::open;
use crate::{Error, Extent, NewTag, Pool, PutOptions, Role, SpaceNeed, Tag, TagChange, TagKind, Zone};

/// Chunks of the pool.
const POOL_CHUNKS: u64 = 16;
/// Chunks that the host has.
const HOST_CHUNKS: usize = 8;

/// A memory on a host that, as ext4 does, keeps behind the file what it found before it refused.
struct Hosted {
    memory: LyingMemory,
    promised: Mutex<BTreeSet<u64>>,
}

impl Hosted {
    fn chunks(&self) -> BTreeSet<u64> {
        self.promised.lock().clone()
    }

    /// Has other files take what the host has left.
    fn fill(&self) {
        let mut promised = self.promised.lock();
        (POOL_CHUNKS..).take(HOST_CHUNKS - promised.len()).for_each(|chunk| _ = promised.insert(chunk));
    }
}

impl Memory for Hosted {
    forward_memory!(self => self.memory; size, survival, fence_is_durable, load, store, zero, load_word, store_word,
        store_words, flush, fence, barrier, share);

    fn reserve(&self, span: Span) -> MediumResult<()> {
        let mut promised = self.promised.lock();
        for chunk in span.at / CHUNK..(span.at + span.len).div_ceil(CHUNK) {
            if promised.len() == HOST_CHUNKS && !promised.contains(&chunk) {
                return Err(ferrite_memory::Error::NoSpace("the host's".into()));
            }
            promised.insert(chunk);
        }
        Ok(())
    }

    fn release(&self, span: Span) -> MediumResult<()> {
        assert!(span.aligned_to(CHUNK), "{span:?} is no whole chunks");
        self.promised.lock().retain(|chunk| !(span.at..span.at + span.len).contains(&(chunk * CHUNK)));
        Ok(())
    }
}

fn hosted() -> (Arc<Hosted>, Pool) {
    let memory = LyingMemory::new(POOL_CHUNKS * CHUNK, Model::MAPPED);
    let memory = Arc::new(Hosted { memory, promised: Mutex::default() });
    Pool::create(&*memory, &format()).expect("a new pool");
    let pool = Pool::open(memory.clone(), BOOT).expect("it opens").0;
    (memory, pool)
}

fn make(pool: &Pool, name: &str, zone: Zone, bytes: u64) -> crate::Result<Arc<Tag>> {
    let needs = &[SpaceNeed { role: Role::DATA, zone, bytes }];
    pool.create_tag(&NewTag { name, kind: TagKind::BYTES, size: bytes, attributes: [0; 64], needs }, |_| Ok(()))
}

/// Where a word of each page of `tag` lies, which is one chunk.
fn words(tag: &Tag) -> impl Iterator<Item = u64> + use<> {
    (tag.extents[0].span().at..).step_by(PAGE as usize).take(CHUNK_PAGES as usize)
}

fn assert_no_space<T: std::fmt::Debug>(refused: crate::Result<T>) {
    assert!(matches!(&refused, Err(Error::Medium(ferrite_memory::Error::NoSpace(_)))), "{refused:?}");
}

/// A caller may stop after any piece that the host gave: pool and host have all of them back.
#[test]
fn a3_a_tag_that_is_stopped_while_it_is_made_leaves_nothing() {
    let (memory, pool) = hosted();
    let holes = ["a", "b", "c"].map(|name| make(&pool, name, Zone::Super, CHUNK).expect("room"));
    [0, 2].into_iter().for_each(|hole: usize| pool.remove_tag(&holes[hole]).expect("removed"));
    let (before, free_bytes) = (memory.chunks(), pool.usage().free_bytes);
    let needs = &[SpaceNeed { role: Role::DATA, zone: Zone::Super, bytes: 2 * CHUNK }];
    let new = NewTag { name: "new", kind: TagKind::BYTES, size: CHUNK, attributes: [0; 64], needs };
    let made = (1..100).find(|stop_at| {
        let (mut calls, mut last) = (0, Progress::default());
        let mut watch = |progress: Progress| {
            (calls, last) = (calls + 1, progress);
            calls != *stop_at
        };
        let Err(why) = pool.create_tag_watched(&new, &mut watch, |_| Ok(())) else {
            assert_eq!((last.done, last.total), (2 * CHUNK, 2 * CHUNK), "all of it is told");
            return true;
        };
        assert!(matches!(why, Error::Cancelled(_)), "{why:?}");
        let left = (memory.chunks(), pool.usage().free_bytes);
        assert_eq!(left, (before.clone(), free_bytes), "stopped at {stop_at}");
        false
    });
    assert!(made.is_some_and(|stops| stops > 1), "it was never stopped, or never made: {made:?}");
    pool.close().expect("sound");
}

/// X2: what has no storage to be moved to stays where it is, and the pool is as good as before.
#[test]
fn x2_a_full_host_ends_a_defragmentation_and_is_told() {
    let (memory, mut pool) = hosted();
    let tags = ["one", "hole", "two", "hole too", "three"].map(|name| make(&pool, name, Zone::Super, CHUNK).unwrap());
    [1, 3].iter().for_each(|hole: &usize| pool.remove_tag(&tags[*hole]).unwrap());
    memory.fill();
    let done = defrag(&mut pool, &TagOwners::default(), &mut |_| true).unwrap();
    assert!(done.left[0].why.contains("the host's"), "{done:?}");
    pool.close().unwrap();
    assert!(Pool::open(memory, BOOT).unwrap().1.clean);
}

/// The free chunks lie apart, so that more than one reservation is needed; the first ones succeed.
#[test]
fn a3_what_the_host_gave_before_it_refused_it_has_back() {
    let (memory, pool) = hosted();
    for name in ["a", "b", "c", "d"] {
        make(&pool, name, Zone::Super, CHUNK).expect("room");
    }
    ["a", "c"].into_iter().for_each(|name| pool.remove_tag(&pool.tag(name).expect("there")).expect("removed"));
    make(&pool, "pages", Zone::Normal, PAGE).expect("room");
    let before = memory.chunks();
    for zone in [Zone::Super, Zone::Normal] {
        assert_no_space(make(&pool, "more than the host has", zone, 9 * CHUNK));
        assert_eq!(memory.chunks(), before, "{zone:?}");
    }
    assert_no_space(pool.put("a value", &mut &vec![1; 9 * CHUNK as usize][..], &PutOptions::default()));
    assert_eq!(memory.chunks(), before, "of a value");
    account(&pool).expect("nothing is lost");
    make(&pool, "what it has", Zone::Super, (HOST_CHUNKS - before.len()) as u64 * CHUNK).expect("it can be had");
}

/// Two chunks that were given back to the host lie before two that are free and have storage.
fn full_host() -> (Arc<Hosted>, Pool) {
    let (memory, pool) = hosted();
    let removed = make(&pool, "removed", Zone::Super, 2 * CHUNK).expect("room");
    let large = make(&pool, "large", Zone::Super, 3 * CHUNK).expect("room");
    let [all] = large.extents[..] else { panic!("not one run: {:?}", large.extents) };
    let keep = &[Extent { pages: CHUNK_PAGES as u32, ..all }];
    let change = TagChange { size: CHUNK, attributes: [0; 64], add: &[], keep };
    pool.change_tag(&large, &change, |_| Ok(())).expect("shrunk");
    pool.remove_tag(&removed).expect("removed");
    memory.fill();
    (memory, pool)
}

#[test]
fn a_full_host_s_pool_uses_its_free_chunks_that_have_storage() {
    for (zone, is_reopened) in [(Zone::Super, false), (Zone::Normal, false), (Zone::Super, true), (Zone::Normal, true)]
    {
        let (memory, mut pool) = full_host();
        if is_reopened {
            pool.close().expect("closed");
            pool = Pool::open(memory.clone(), BOOT).expect("it opens").0;
        }
        let before = memory.chunks();
        for name in ["first", "second"] {
            let made = make(&pool, name, zone, CHUNK).unwrap_or_else(|why| panic!("{zone:?}, {is_reopened}: {why}"));
            let mut chunks = made.extents.iter().map(|extent| extent.page / CHUNK_PAGES);
            assert!(chunks.all(|chunk| before.contains(&chunk)), "{:?}", made.extents);
        }
        assert_no_space(make(&pool, "third", zone, CHUNK));
        assert_eq!(memory.chunks(), before);
        account(&pool).expect("nothing is lost");
    }
}

#[test]
fn chunks_with_storage_and_what_the_host_has_left_are_had_together() {
    for more in [0, CHUNK] {
        let (memory, pool) = full_host();
        memory.promised.lock().pop_last().expect("others have some");
        let needs = [(Role::MAP, Zone::Normal, CHUNK), (Role::DATA, Zone::Super, 2 * CHUNK + more)];
        let needs = &needs.map(|(role, zone, bytes)| SpaceNeed { role, zone, bytes });
        let new = NewTag { name: "a", kind: TagKind::BYTES, size: CHUNK, attributes: [0; 64], needs };
        let made = pool.create_tag(&new, |_| Ok(()));
        account(&pool).expect("nothing is lost");
        if more > 0 {
            assert_no_space(made);
            continue;
        }
        let made = made.expect("three chunks can be had");
        let bytes = |role| made.extents.iter().filter(|it| it.role == role).map(|it| it.span().len).sum::<u64>();
        assert_eq!((bytes(Role::MAP), bytes(Role::DATA)), (CHUNK, 2 * CHUNK));
    }
}

#[test]
fn a3_a_removed_tag_gives_the_host_back_chunks_that_nobody_else_is_in() {
    let (memory, pool) = hosted();
    let empty = memory.chunks();
    let large = make(&pool, "large", Zone::Super, 3 * CHUNK).expect("room");
    let pages = make(&pool, "pages", Zone::Normal, CHUNK + PAGE).expect("room");
    let neighbour = make(&pool, "neighbour", Zone::Normal, PAGE).expect("room");
    assert_eq!(memory.chunks().len(), empty.len() + 5);
    pool.remove_tag(&large).expect("removed");
    assert_eq!(memory.chunks().len(), empty.len() + 2);
    pool.remove_tag(&pages).expect("removed");
    let left = memory.chunks();
    assert_eq!(left.len(), empty.len() + 1, "the neighbour's stays");
    assert!(left.contains(&(neighbour.extents[0].span().at / CHUNK)));
    pool.remove_tag(&neighbour).expect("removed");
    assert_eq!(memory.chunks(), empty);
    account(&pool).expect("nothing is lost");
}

/// The list of a tag's extents is stored again where there is space, which is in a chunk that it then has alone.
#[test]
fn a3_a_removed_tag_gives_the_host_back_its_list_of_extents() {
    let (memory, pool) = hosted();
    let page = |role| SpaceNeed { role, zone: Zone::Normal, bytes: PAGE };
    let needs = &[page(Role::MAP), page(Role::DATA)].repeat(INLINE);
    let new = NewTag { name: "wide", kind: TagKind::BYTES, size: PAGE, attributes: [0; 64], needs };
    let wide = pool.create_tag(&new, |_| Ok(())).expect("room");
    let list_pages = 1;
    make(&pool, "rest", Zone::Normal, CHUNK - (needs.len() as u64 + list_pages) * PAGE).expect("room");
    let before = memory.chunks();
    let change = TagChange { size: PAGE, attributes: [0; 64], add: &[], keep: &wide.extents };
    let wide = pool.change_tag(&wide, &change, |_| Ok(())).expect("room");
    assert_eq!(memory.chunks().len(), before.len() + 1);
    pool.remove_tag(&wide).expect("removed");
    assert_eq!(memory.chunks(), before);
    account(&pool).expect("nothing is lost");
}

/// Grants this process, as a client, stores to all of `tag`.
fn grant(pool: &Pool, tag: &Tag) {
    let pid = std::process::id();
    let process =
        Process::of(&Caller { pid, uid: 0, process: PidFd::open(pid).expect("it lives"), connection: 0 }, BOOT);
    let ask = GrantRequest { tag, extents: &tag.extents, rights: GrantRights::ReadWrite, process: &process };
    pool.grant(&ask).expect("granted");
}

/// G2, A3: what a client may still store to stays behind the pool.
#[test]
fn a3_what_is_under_a_grant_is_not_given_to_the_host() {
    let (memory, pool) = hosted();
    let tag = make(&pool, "a", Zone::Super, 2 * CHUNK).expect("room");
    grant(&pool, &tag);
    let before = memory.chunks();
    pool.remove_tag(&tag).expect("removed");
    assert_eq!(memory.chunks(), before);
}

/// What is promised of the pool, and what it has of that in use, in chunks.
fn promised_and_used(memory: &Hosted, pool: &Pool) -> (usize, usize) {
    let (promised, idle) = (memory.chunks(), pool.space().idle());
    let used = promised.iter().filter(|chunk| !idle[**chunk as usize]).count();
    (promised.len(), used)
}

/// A process is killed before it gives back what it took, and before what it has committed to be free.
#[test]
fn a3_what_a_killed_process_did_not_give_back_who_opens_the_pool_next_does() {
    let (memory, pool) = hosted();
    let own = memory.chunks().len();
    let tag = make(&pool, "a", Zone::Super, 3 * CHUNK).expect("room");
    make(&pool, "b", Zone::Normal, PAGE).expect("room");
    let mut transaction = pool.transaction();
    let change = TagChange { size: CHUNK, attributes: [0; 64], add: &[], keep: &[] };
    pool.change_tag(&tag, &change, |_| Ok(())).expect("changed");
    transaction.take(&[SpaceNeed { role: Role::DATA, zone: Zone::Super, bytes: 4 * CHUNK }]).expect("room");
    std::mem::forget(transaction);
    assert_eq!(promised_and_used(&memory, &pool), (own + 5, own + 5));
    drop(pool);
    let (pool, recovery) = Pool::open(memory.clone(), BOOT).expect("it opens");
    assert!(!recovery.clean);
    assert_eq!(promised_and_used(&memory, &pool), (own + 1, own + 1));
    account(&pool).expect("nothing is lost");
    make(&pool, "c", Zone::Super, (HOST_CHUNKS - own - 1) as u64 * CHUNK).expect("it can be had");
}

/// G2, A3: a client lives longer than the pool's owner.
#[test]
fn a3_what_is_under_a_grant_stays_behind_a_pool_whose_owner_was_killed() {
    let (memory, pool) = hosted();
    let tag = make(&pool, "a", Zone::Super, 2 * CHUNK).expect("room");
    grant(&pool, &tag);
    pool.remove_tag(&tag).expect("removed");
    let before = memory.chunks();
    drop(pool);
    let _pool = Pool::open(memory.clone(), BOOT).expect("it opens");
    assert_eq!(memory.chunks(), before);
}

/// K2, A3: the tables of a damaged pool may call free what a tag has.
#[test]
fn a3_a_repair_lets_nothing_go_that_damage_calls_free() {
    let memory = new_pool(Model::MAPPED);
    let pool = open(&memory);
    let tag = make(&pool, "a", Zone::Super, CHUNK).expect("room");
    words(&tag).for_each(|at| memory.store(at, b"its word", Scheme::Nt));
    pool.close().expect("closed");
    drop(open(&memory));
    memory.store(kind_at(tag.extents[0].page / CHUNK_PAGES), &[0], Scheme::Flush);
    let shared: Arc<dyn Memory> = memory.clone();
    let report = repair(&shared, &TagOwners::default(), &[], &mut |_| ()).expect("repaired");
    assert!(report.findings.iter().any(|finding| finding.repaired.is_some()), "{report:?}");
    open(&memory).tag("a").expect("it is there");
    assert!(words(&tag).all(|at| memory.load_word(at) == u64::from_le_bytes(*b"its word")));
}

/// Pages of tags and of their table move, and a chunk.
#[test]
fn a3_what_is_moved_takes_no_more_of_the_host() {
    let (memory, mut pool) = hosted();
    let hole = make(&pool, "hole", Zone::Super, CHUNK).expect("room");
    let names: Vec<String> = (0..24).map(|index| format!("tag {index}")).collect();
    let pages = names.iter().map(|name| make(&pool, name, Zone::Normal, PAGE).expect("room")).collect::<Vec<_>>();
    let other = make(&pool, "other", Zone::Super, CHUNK).expect("room");
    make(&pool, "last", Zone::Super, 2 * CHUNK).expect("room");
    pages.iter().step_by(2).for_each(|tag| pool.remove_tag(tag).expect("removed"));
    [hole, other].iter().for_each(|tag| pool.remove_tag(tag).expect("removed"));
    let before = promised_and_used(&memory, &pool);
    assert_eq!(before.0, before.1);
    let done = defrag(&mut pool, &TagOwners::default(), &mut |_| true).expect("defragmented");
    assert!(done.moved_bytes > CHUNK && done.left.is_empty(), "{done:?}");
    assert_eq!(promised_and_used(&memory, &pool), before, "{done:?}");
}
