//! X3: what must stay, stays; and a stop in between.

use super::*;
use crate::grant::{GrantRequest, GrantRights, Process, ProcessIdentity};

/// A process that cannot be judged, and so counts as living.
fn living() -> Process {
    let identity = ProcessIdentity { pid: std::process::id(), namespace: 0, start_ticks: 0, boot_id: BOOT };
    Process::recall(identity, BOOT)
}

#[test]
fn x3_what_is_under_a_grant_stays_and_the_rest_moves() {
    let memory = blank(14, Model::MAPPED);
    let mut pool = open(&memory);
    make(&pool, "fixed", &[pages(500)]).unwrap();
    make(&pool, "pad", &[pages(12)]).unwrap();
    scattered(&pool);
    extend(&pool, "p0", &[pages(7)]).unwrap();
    let granted = pool.tag("fixed").unwrap();
    let process = living();
    assert!(process.is_alive());
    let ask = GrantRequest {
        tag: &granted,
        extents: &granted.extents[..1],
        rights: GrantRights::ReadWrite,
        process: &process,
    };
    let grant = pool.grant(&ask).unwrap();
    let before = seen(&pool);
    let report = run(&mut pool);
    println!("{report:?}");
    assert_eq!(pool.tag("fixed").unwrap(), granted);
    assert!(seen(&pool) == before && report.moved_bytes > 0);
    assert!(report.left.iter().any(|left| left.tag.as_deref() == Some("fixed") && left.why.contains("grant")));
    account(&pool).unwrap();
    pool.grants().release(&pool, grant.id).unwrap();
    let report = run(&mut pool);
    assert!(report.left.is_empty() && seen(&pool) == before, "{report:?}");
    assert_eq!((report.after.free_runs, report.after.page_chunks), (1, 2));
    sound(&memory).unwrap();
}

#[test]
fn x3_a_kind_that_nobody_knows_stays() {
    let memory = blank(12, Model::MAPPED);
    let mut pool = open(&memory);
    scattered(&pool);
    let tags = pool.tags();
    let report = defrag(&mut pool, &TagOwners::default(), &mut quiet).unwrap();
    assert_eq!((report.moved_bytes, report.left.len()), (0, tags.len()));
    assert!(report.left.iter().all(|left| left.why.contains("kind 77")));
    let places = |tags: &[Arc<Tag>]| tags.iter().map(|tag| seen_places(tag)).collect::<Vec<_>>();
    assert_eq!(places(&pool.tags()), places(&tags));
}

/// The page of each page of each stream.
fn seen_places(tag: &Tag) -> Vec<(Role, Vec<u64>)> {
    let pages = |role| tag.extents.iter().filter(move |it| it.role == role).flat_map(|it| it.page..it.end()).collect();
    [Role(0), Role(1)].map(|role| (role, pages(role))).into()
}

/// An owner that lets one of its tags not be moved.
struct Stubborn;

impl TagOwner for Stubborn {
    fn kind(&self) -> TagKind {
        STAMPED
    }

    fn walk(&self, pool: &Pool, tag: &Tag, findings: &mut TagFindings<'_>) {
        Stamped.walk(pool, tag, findings);
    }

    fn relocate(&self, _: &Pool, tag: &Tag, _: &MovedRange) -> Result<()> {
        match &*tag.name {
            "wide" | "a2" => Err(Error::Busy("not this one".into())),
            _ => Ok(()),
        }
    }
}

#[test]
fn x3_a_tag_whose_owner_refuses_stays() {
    let memory = blank(12, Model::MAPPED);
    let mut pool = open(&memory);
    scattered(&pool);
    ["x", "y"].iter().for_each(|name| drop(make(&pool, name, &[superpages(1)]).unwrap()));
    extend(&pool, "x", &[superpages(1)]).unwrap();
    let (before, wide) = (seen(&pool), seen_places(&pool.tag("wide").unwrap()));
    let mut owners = TagOwners::default();
    owners.register(Box::new(Stubborn));
    let report = defrag(&mut pool, &owners, &mut quiet).unwrap();
    assert!(report.left.iter().any(|left| left.why == "not this one"), "{report:?}");
    assert_eq!(seen_places(&pool.tag("wide").unwrap()), wide);
    assert!(seen(&pool) == before && report.moved_bytes > 0);
    sound(&memory).unwrap();
}

/// A log whose head is damaged stays where it is, as damaged as it was.
#[test]
fn x3_a_damaged_log_stays() {
    let memory = blank(8, Model::MAPPED);
    let pool = Arc::new(open(&memory));
    make(&pool, "gap", &[pages(5)]).unwrap();
    drop(TagLog::create(Arc::clone(&pool), "log", 2 * PAGE).unwrap());
    make(&pool, "more", &[pages(5)]).unwrap();
    make(&pool, "gap 2", &[superpages(1)]).unwrap();
    make(&pool, "super", &[superpages(1)]).unwrap();
    let mut pool = Arc::into_inner(pool).unwrap();
    extend(&pool, "more", &[pages(3)]).unwrap();
    ["gap", "gap 2"].iter().for_each(|name| remove(&pool, name));
    make(&pool, "tail", &[pages(9)]).unwrap();
    let tag = pool.tag("log").unwrap();
    let head = tag.extents.iter().find(|it| it.role == Role::MAP).unwrap().span().at;
    pool.memory().store_word(head, 1 << 60);
    let report = run(&mut pool);
    assert_eq!(seen_places(&pool.tag("log").unwrap()), seen_places(&tag));
    assert!(report.left.iter().any(|left| left.tag.as_deref() == Some("log")) && report.moved_bytes > 0, "{report:?}");
    let error = TagLog::open(Arc::new(pool), "log").unwrap_err().to_string();
    assert!(error.contains("head of log"), "{error}");
}

/// Stopped after any step, everything is as it was, and the next run ends it.
#[test]
fn x1_stopped_after_any_step_it_is_whole_and_the_next_ends_it() {
    let image = blank(12, Model::MAPPED);
    let pool = open(&image);
    scattered(&pool);
    let before = seen(&pool);
    for stop in 1.. {
        let memory = Arc::new(image.kill());
        memory.keep_trace(false);
        let (mut pool, mut steps) = (open(&memory), 0);
        let result = defrag(&mut pool, &owners(), &mut |_| {
            steps += 1;
            steps < stop
        });
        assert!(seen(&pool) == before);
        account(&pool).unwrap();
        let end = Scatter::of(&pool);
        if result.is_ok() {
            assert!(steps > 5 && (end.free_runs, end.page_chunks) == (1, 1), "{end:?} after {steps} steps");
            return;
        }
        assert!(matches!(result, Err(Error::Cancelled(_))));
        let report = run(&mut pool);
        assert!(seen(&pool) == before);
        assert_eq!((report.after.free_runs, report.after.page_chunks), (1, 1), "{report:?}");
    }
}
