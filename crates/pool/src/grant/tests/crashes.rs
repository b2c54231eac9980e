//! The owner crashes at any point of grant, revoke, release, removal while granted, and of recovery itself.

use ferrite_crash::{Crash, ExploreOptions, Points, explore};

use super::*;

const GRANTED: u64 = 1;
const REMOVED: u64 = 2;
const REUSED: u64 = 3;
const RELEASING: u64 = 4;
const RELEASED: u64 = 5;

type Verdict = std::result::Result<(), String>;

/// What the scenario's crashes are judged by.
struct Story {
    memory: Arc<LyingMemory>,
    granted_pages: Vec<Extent>,
    /// Whether the client lives when the pool is opened again.
    lives: bool,
}

/// A client is given a tag; the tag is removed under it and all other space used; then it gives the grant back.
fn story(model: Model, pieces: usize, lives: bool) -> Story {
    let memory = formatted(model);
    let process = if lives { ours() } else { long_gone() };
    let pool = opened(&memory, THIS_BOOT);
    let tag_a = tag(&pool, "a", &[need(Zone::Normal, 2 * pieces as u64 * PAGE)]).expect("tag");
    let pages = tag_a.extents.iter().flat_map(|extent| (extent.page..extent.end()).step_by(2));
    let granted_pages: Vec<Extent> = pages.map(|page| page_at(page * PAGE)).collect();
    memory.forget_trace();

    let granted = pool.grant(&GrantRequest { extents: &granted_pages, ..ask(&tag_a, &process) }).expect("grant");
    memory.mark(GRANTED);
    assert_eq!(pool.grants().revoke_tag(tag_a.generation), 1);
    pool.remove_tag(&tag_a).expect("remove");
    memory.mark(REMOVED);
    let rest = pool.usage().free_bytes / CHUNK * CHUNK;
    let rest = tag(&pool, "rest", &[need(Zone::Super, rest)]).expect("rest");
    assert!(!Coverage::of(&rest.extents).touches(granted_pages[0]));
    memory.mark(REUSED);
    memory.mark(RELEASING);
    pool.grants().release(&pool, granted.id).expect("release");
    memory.mark(RELEASED);
    drop(pool);
    Story { memory, granted_pages, lives }
}

impl Story {
    /// What must be true of the pool after a crash, as its next owner finds it.
    fn judge(&self, crash: &Crash<'_>, memory: &Arc<LyingMemory>) -> Verdict {
        let (pool, _) = Pool::open(memory.clone(), THIS_BOOT).map_err(|e| e.to_string())?;
        assert_accounted(&pool);
        let (stands, removed) = (!pool.grants().standing().is_empty(), pool.tag("a").is_err());
        if self.lives && crash.has_mark(GRANTED) && !crash.has_mark(RELEASING) && !stands {
            return Err("G1: a client may touch pages and nobody knows of it".into());
        }
        if stands && (!self.lives || crash.has_mark(RELEASED)) {
            return Err("G3: the grant outlived its end".into());
        }
        if crash.has_mark(REMOVED) && !removed || !crash.has_mark(GRANTED) && removed {
            return Err("the tag is not as it was acknowledged".into());
        }
        if crash.has_mark(REUSED) && pool.tag("rest").is_err() {
            return Err("a tag made beside a grant is lost".into());
        }
        if stands || !removed {
            assert_held(&pool, &self.granted_pages);
        }
        self.judge_end(pool, stands)
    }

    /// However far it came, everything can be given back and nothing is lost.
    fn judge_end(&self, pool: Pool, stands: bool) -> Verdict {
        let grants = pool.grants().standing();
        grants.iter().try_for_each(|grant| pool.grants().release(&pool, grant.id)).map_err(|e| e.to_string())?;
        pool.tags().iter().try_for_each(|tag| pool.remove_tag(tag)).map_err(|e| e.to_string())?;
        let free = POOL_BYTES - crate::layout::FIXED_CHUNKS * CHUNK;
        match pool.usage().free_bytes == free {
            true => Ok(()),
            false => Err(format!("{} bytes leaked (grant stood: {stands})", free - pool.usage().free_bytes)),
        }
    }
}

fn options(samples_per_point: u64) -> ExploreOptions {
    ExploreOptions { seed: 21, images_per_point_max: 64, samples_per_point, points: Points::Widest, only: None }
}

#[test]
fn g1_g2_g3_hold_wherever_the_owner_crashes() {
    for model in Model::ALL {
        for (pieces, lives) in [(4, true), (4, false), (5, true)] {
            let story = story(model, pieces, lives);
            let report = explore(&story.memory, &options(75), |crash| story.judge(crash, &Arc::new(crash.memory())));
            println!("{model:?}, {pieces} pieces, client lives: {lives}: {report}");
            report.assert_clean();
        }
    }
}

/// Recovery ends grants of dead processes. A crash in the middle of that, and another one, lead to the same result.
#[test]
fn g3_recovery_may_crash_while_it_ends_grants() {
    let story = story(Model::MAPPED, 5, false);
    let report = explore(&story.memory, &options(2), |crash| {
        let recovering = Arc::new(crash.memory());
        drop(Pool::open(recovering.clone(), THIS_BOOT).map_err(|e| e.to_string())?);
        let inner = explore(&recovering, &options(2), |again| story.judge(crash, &Arc::new(again.memory())));
        inner.failure.map_or(Ok(()), |failure| Err(failure.to_string()))
    });
    println!("{report}, each with crashes of its recovery");
    report.assert_clean();
}

/// The canary: a grant whose client knows of it before it is recorded must be caught.
#[test]
fn canary_a_grant_told_too_early_is_caught() {
    let memory = formatted(Model::MAPPED);
    let (pool, process) = (opened(&memory, THIS_BOOT), ours());
    let tag = tag(&pool, "a", &[need(Zone::Normal, 4 * PAGE)]).expect("tag");
    memory.forget_trace();
    memory.mark(GRANTED);
    pool.grant(&ask(&tag, &process)).expect("grant");
    drop(pool);
    let granted_pages = tag.extents.clone();
    let story = Story { memory, granted_pages, lives: true };
    let report = explore(&story.memory, &options(60), |crash| story.judge(crash, &Arc::new(crash.memory())));
    assert!(report.expect_failure().to_string().contains("G1"));
}
