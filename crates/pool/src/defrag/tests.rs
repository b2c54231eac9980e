//! What the proofs of X1 to X4 share, and the plain ones.

mod crashes;
mod fixed;
mod model;

use std::collections::BTreeMap;

use ferrite_crash::{LyingMemory, Model};
use ferrite_memory::{Memory, Scheme, Span};

use super::*;
use crate::check::{MovedRange, TagFindings, TagOwner, check};
use crate::layout::{PAGE, POOL_BYTES_MIN};
use crate::tests::support::{BOOT, CheckVerdict, account, format, open};
use crate::{Extent, NewTag, PutOptions, Role, SpaceNeed, Stream, Tag, TagChange, TagKind, TagLog, Zone};

/// Tags whose every page says whose it is, and which page of which stream.
const STAMPED: TagKind = TagKind(77);

/// Their owner.
struct Stamped;

impl TagOwner for Stamped {
    fn kind(&self) -> TagKind {
        STAMPED
    }

    fn walk(&self, pool: &Pool, tag: &Tag, findings: &mut TagFindings<'_>) {
        if let Some(at) = wrong_page(pool.memory(), tag) {
            findings.error("X1: a page is not what was written", Some(at));
        }
    }
}

fn owners() -> TagOwners {
    let mut owners = TagOwners::default();
    owners.register(Box::new(Stamped));
    owners
}

fn stamp(tag: &str, role: Role, page: u64) -> u64 {
    let name =
        tag.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    name ^ (u64::from(role.0) << 56) ^ page.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Both ends of every page of the streams of `tag`, with what stands there.
fn stamps(name: &str, extents: &[Extent]) -> Vec<(u64, u64)> {
    let page = |it: &stream_piece::StreamPiece, i| {
        let (at, stamp) = ((it.extent.page + i) * PAGE, stamp(name, it.extent.role, it.at + i));
        [(at, stamp), (at + PAGE - 8, !stamp)]
    };
    let pieces = stream_piece::pieces(extents);
    pieces.iter().flat_map(|it| (0..it.extent.pages.into()).flat_map(move |i| page(it, i))).collect()
}

fn wrong_page(memory: &dyn Memory, tag: &Tag) -> Option<u64> {
    stamps(&tag.name, &tag.extents).into_iter().find(|(at, stamp)| memory.load_word(*at) != *stamp).map(|(at, _)| at)
}

fn need(role: u8, zone: Zone, bytes: u64) -> SpaceNeed {
    SpaceNeed { role: Role(role), zone, bytes }
}

fn pages(count: u64) -> SpaceNeed {
    need(0, Zone::Normal, count * PAGE)
}

fn superpages(count: u64) -> SpaceNeed {
    need(0, Zone::Super, count * CHUNK)
}

/// Stamps the pages of `name` from stream page to stream page; those it had keep theirs.
fn write_stamps(pool: &Pool, name: &str, extents: &[Extent]) -> Result<()> {
    for (at, stamp) in stamps(name, extents) {
        pool.memory().store(at, &stamp.to_le_bytes(), Scheme::Nt);
    }
    Ok(pool.memory().drain()?)
}

fn make(pool: &Pool, name: &str, needs: &[SpaceNeed]) -> Result<Arc<Tag>> {
    let new = NewTag { name, kind: STAMPED, size: 5, attributes: [3; 64], needs };
    pool.create_tag(&new, |extents| write_stamps(pool, name, extents))
}

/// Adds space behind what `name` has.
fn extend(pool: &Pool, name: &str, add: &[SpaceNeed]) -> Result<()> {
    let tag = pool.tag(name)?;
    let change = TagChange { size: tag.size, attributes: tag.attributes, add, keep: &tag.extents };
    pool.change_tag(&tag, &change, |added| {
        let all: Vec<Extent> = tag.extents.iter().chain(added).copied().collect();
        write_stamps(pool, name, &all)
    })?;
    Ok(())
}

fn remove(pool: &Pool, name: &str) {
    pool.remove_tag(&pool.tag(name).unwrap()).unwrap();
}

/// A new pool of `chunks` chunks to use, closed.
fn blank(chunks: u64, model: Model) -> Arc<LyingMemory> {
    let memory = Arc::new(LyingMemory::new(POOL_BYTES_MIN + (chunks - 2) * CHUNK, model));
    memory.keep_trace(false);
    Pool::create(&*memory, &format()).unwrap();
    memory
}

/// What users see of a tag: its size, its notes, its generation, the bytes of its streams.
type Seen = (TagKind, u64, [u8; 64], u64, BTreeMap<Role, Vec<u8>>);

/// What users see of a pool.
fn seen(pool: &Pool) -> BTreeMap<String, Seen> {
    let stream = |tag: &Tag, role| {
        let stream = Stream::new(&tag.extents, role);
        let mut bytes = Vec::new();
        for run in stream.runs(Span::new(0, stream.len())) {
            let start = bytes.len();
            bytes.resize(start + run.len as usize, 0);
            pool.memory().load(run.at, &mut bytes[start..]);
        }
        bytes
    };
    let see = |tag: &Tag| {
        let roles = tag.extents.iter().map(|extent| extent.role).collect::<BTreeSet<_>>();
        let streams = roles.into_iter().map(|role| (role, stream(tag, role))).collect();
        (tag.kind, tag.size, tag.attributes, tag.generation, streams)
    };
    pool.tags().iter().map(|tag| (tag.name.clone(), see(tag))).collect()
}

/// The pool is sound, by its own check and by a count of all pages, and all that it holds is what was written.
fn sound(memory: &Arc<LyingMemory>) -> CheckVerdict {
    let shared: Arc<dyn Memory> = memory.clone();
    let report = check(&shared, &owners(), &mut |_| ());
    let is_wrong = |it: &&crate::check::CheckFinding| {
        it.severity != crate::check::Severity::Note && it.at.is_none_or(|at| at > PAGE) && !it.what.contains("of kind")
    };
    if let Some(wrong) = report.findings.iter().find(is_wrong) {
        return Err(format!("X1: {wrong:?}"));
    }
    let pool = Pool::open(shared, BOOT).map_err(|error| error.to_string())?.0;
    account(&pool)
}

fn quiet(_: Progress) -> bool {
    true
}

fn run(pool: &mut Pool) -> Defragmented {
    defrag(pool, &owners(), &mut quiet).unwrap()
}

/// Tags of both zones with holes between them.
fn scattered(pool: &Pool) {
    for number in 0..3 {
        make(pool, &format!("a{number}"), &[superpages(1)]).unwrap();
        make(pool, &format!("gap{number}"), &[superpages(1)]).unwrap();
        make(pool, &format!("p{number}"), &[pages(40)]).unwrap();
        make(pool, &format!("hole{number}"), &[pages(30)]).unwrap();
    }
    (0..3).for_each(|number| remove(pool, &format!("gap{number}")));
    (0..3).for_each(|number| remove(pool, &format!("hole{number}")));
    make(pool, "wide", &[superpages(2), pages(80)]).unwrap();
    remove(pool, "a1");
    remove(pool, "p1");
    extend(pool, "a2", &[superpages(1), need(1, Zone::Normal, 50 * PAGE)]).unwrap();
}

#[test]
fn x1_x4_extents_become_few_and_free_chunks_one_run() {
    for model in Model::ALL {
        let memory = blank(12, model);
        let mut pool = open(&memory);
        scattered(&pool);
        let (before, usage) = (seen(&pool), pool.usage());
        let report = run(&mut pool);
        println!("{report:?}");
        assert!(seen(&pool) == before, "X1");
        assert_eq!((report.after.free_runs, report.after.page_chunks), (1, 1));
        assert_eq!(report.after.largest_free_run_bytes, usage.free_bytes / CHUNK * CHUNK);
        for tag in pool.tags() {
            let runs: Vec<stream_piece::ZoneRun> =
                [Zone::Normal, Zone::Super].iter().flat_map(|zone| stream_piece::runs(&tag.extents, *zone)).collect();
            assert_eq!(runs.len(), tag.extents.len(), "{:?}: {:?}", tag.name, tag.extents);
        }
        assert_eq!(pool.usage(), usage);
        assert!(report.before.extents > report.after.extents && report.left.is_empty());
        let again = run(&mut pool);
        assert_eq!((again.moved_bytes, again.transactions, again.before), (0, 0, report.after), "X4");
        pool.close().unwrap();
        sound(&memory).unwrap();
    }
}

/// Extents that lie side by side, as a thin disk that grows chunk by chunk has them, are joined without a copy.
#[test]
fn x4_neighbours_are_joined_where_they_are() {
    let memory = blank(16, Model::MAPPED);
    let mut pool = open(&memory);
    make(&pool, "thin", &[need(1, Zone::Normal, PAGE), superpages(1)]).unwrap();
    (0..12).for_each(|_| extend(&pool, "thin", &[superpages(1)]).unwrap());
    assert_eq!(pool.tag("thin").unwrap().extents.len(), 14);
    let before = seen(&pool);
    let report = run(&mut pool);
    assert_eq!((report.moved_bytes, report.after.extents), (0, 2));
    assert!(seen(&pool) == before);
    sound(&memory).unwrap();
}

/// X2: with a single free chunk, tags that are interlaced chunk by chunk come apart.
#[test]
fn x2_one_free_chunk_is_enough() {
    let memory = blank(15, Model::MAPPED);
    let mut pool = open(&memory);
    make(&pool, "a", &[superpages(1)]).unwrap();
    make(&pool, "b", &[superpages(1)]).unwrap();
    for number in 0..10 {
        extend(&pool, ["a", "b"][number % 2], &[superpages(1)]).unwrap();
    }
    make(&pool, "list", &[pages(500)]).unwrap();
    make(&pool, "c", &[superpages(1)]).unwrap();
    assert_eq!(Scatter::of(&pool).free_runs, 1);
    let before = seen(&pool);
    let report = run(&mut pool);
    println!("{report:?}");
    assert!(seen(&pool) == before);
    assert!(["a", "b"].iter().all(|name| pool.tag(name).unwrap().extents.len() == 1));
    assert!(report.left.is_empty());
    sound(&memory).unwrap();
}

/// X2: with a few free pages and no free chunk, pages are packed; with nothing free it is said, and nothing harmed.
#[test]
fn x2_a_pool_that_is_nearly_full_or_full() {
    for free_pages in [0, 1, 3, 40] {
        let memory = blank(4, Model::MAPPED);
        let mut pool = open(&memory);
        make(&pool, "super", &[superpages(2)]).unwrap();
        for number in 0..100 {
            make(&pool, &format!("{number:02}"), &[pages(1)]).unwrap();
        }
        (0..100).step_by(2).for_each(|number| remove(&pool, &format!("{number:02}")));
        let room = pool.usage().free_bytes / PAGE - free_pages;
        // The list of its extents takes pages too.
        let lists = room.min(60).saturating_sub(8).div_ceil(254);
        make(&pool, "rest", &[pages(room - lists)]).unwrap();
        assert_eq!(pool.usage().free_bytes, free_pages * PAGE);
        let before = seen(&pool);
        let report = run(&mut pool);
        println!("{free_pages} free pages: {report:?}");
        assert!(seen(&pool) == before);
        assert!(report.after.extents <= report.before.extents);
        if free_pages >= 3 {
            assert_eq!(pool.tag("rest").unwrap().extents.len(), 2, "one for each chunk");
        } else {
            assert!(!report.left.is_empty() || report.moved_bytes > 0);
        }
        sound(&memory).unwrap();
    }
}

/// The pages of the tag table, and the lists of extents, move too.
#[test]
fn tables_and_lists_move_too() {
    let memory = blank(10, Model::MAPPED);
    let mut pool = open(&memory);
    for number in 0..30 {
        make(&pool, &format!("{number}"), &[pages(100)]).unwrap();
    }
    for number in 0..9 {
        extend(&pool, "29", &[pages(1)]).unwrap();
        extend(&pool, "28", &[pages(1)]).unwrap();
        remove(&pool, &number.to_string());
    }
    (12..28).for_each(|number| remove(&pool, &number.to_string()));
    let before = seen(&pool);
    let report = run(&mut pool);
    println!("{report:?}");
    assert!(seen(&pool) == before);
    assert_eq!((report.after.page_chunks, report.after.free_runs), (1 + 1, 1), "{report:?}");
    for number in 0..9 {
        make(&pool, &format!("new {number}"), &[pages(1)]).unwrap();
    }
    drop(pool);
    sound(&memory).unwrap();
    assert_eq!(open(&memory).tags().len(), before.len() + 9);
}

#[test]
fn a_log_and_values_are_what_they_were() {
    let memory = blank(8, Model::MAPPED);
    let pool = Arc::new(open(&memory));
    make(&pool, "gap", &[superpages(1)]).unwrap();
    let log = TagLog::create(Arc::clone(&pool), "log", 70 * PAGE).unwrap();
    let records: Vec<Vec<u8>> =
        (0..2000_u32).map(|number| number.to_le_bytes().repeat(1 + number as usize % 9)).collect();
    records.iter().for_each(|record| _ = log.append(record).unwrap());
    let cut = log.records().nth(700).unwrap().unwrap().0;
    log.cut(cut).unwrap();
    let value = |number: usize| vec![number as u8; number * 1000];
    for number in 0..8 {
        pool.put(&format!("value {number}"), &mut &*value(number), &PutOptions::default()).unwrap();
    }
    drop(log);
    let mut pool = Arc::into_inner(pool).unwrap();
    ["gap", "value 1", "value 4"].iter().for_each(|name| remove(&pool, name));
    let head = pool.tag("log").unwrap().extents[0].page;
    let report = run(&mut pool);
    assert!(report.left.is_empty() && report.moved_bytes > 0, "{report:?}");
    assert_ne!(
        pool.tag("log").unwrap().extents.iter().find(|it| it.role == Role::MAP).unwrap().page,
        head,
        "not moved"
    );
    drop(pool);
    sound(&memory).unwrap();
    let pool = Arc::new(open(&memory));
    let log = TagLog::open(Arc::clone(&pool), "log").unwrap();
    let found: Vec<Vec<u8>> = log.records().map(|record| record.unwrap().1).collect();
    assert!(found == records[700..]);
    log.append(b"and on").unwrap();
    for number in [0, 2, 3, 5, 6, 7] {
        let mut found = Vec::new();
        pool.get(&format!("value {number}"), &mut found).unwrap();
        assert!(found == value(number));
    }
}

/// Room for lists of extents ends in the middle: nothing is lost, it is said, and with room the next one ends it.
#[test]
fn x2_x4_what_room_ended_in_is_told_and_the_next_ends_it() {
    let memory = blank(6, Model::MAPPED);
    let mut pool = open(&memory);
    let maps = |count| need(1, Zone::Normal, count * PAGE);
    make(&pool, "4", &[maps(1), superpages(1), pages(584)]).unwrap();
    extend(&pool, "4", &[pages(10), superpages(1)]).unwrap();
    make(&pool, "12", &[maps(3), superpages(1), pages(38)]).unwrap();
    make(&pool, "15", &[maps(1), superpages(1), pages(18)]).unwrap();
    pool.put("11", &mut &[11; 21105][..], &PutOptions::default()).unwrap();
    remove(&pool, "12");
    make(&pool, "0", &[maps(1), superpages(1), pages(6)]).unwrap();
    let single = vec![pages(1); 245];
    make(&pool, "19", &[vec![maps(3), pages(127)], single].concat()).unwrap();
    extend(&pool, "15", &[pages(17)]).unwrap();
    let mut before = seen(&pool);
    let first = run(&mut pool);
    assert!(seen(&pool) == before);
    let why = &first.left.iter().find(|left| left.tag.is_none()).unwrap().why;
    assert!(why.starts_with("there is no free space to move through: "), "{why}");
    account(&pool).unwrap();
    remove(&pool, "0");
    before.remove("0");
    let next = run(&mut pool);
    assert!(next.left.is_empty() && next.after.cost() < first.before.cost(), "{first:?} {next:?}");
    assert!(seen(&pool) == before);
    assert_eq!(run(&mut pool).moved_bytes, 0);
    sound(&memory).unwrap();
}
