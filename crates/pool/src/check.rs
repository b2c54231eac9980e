//! Check: whether a pool is what it should be, and repair of what has one right answer.
//!
//! The tables are held against each other both ways: every page of every tag, and of the pool's own structures, is in
//! use and in its zone; no page is in two places; no page is in use that nobody names. Then each tag's owner walks what
//! the tag holds.
//!
//! - K1. A check writes nothing: it replays what a crash left into DRAM and looks at that. A pool
//!   that cannot be opened is not touched by a repair either.
//! - K2. What a repair changes of the tables is what everything else in the pool says it must be: pages that a tag
//!   names are marked, and pages that nobody names are freed, the latter only when no damage hides who might name them.
//! - K3. A repair never takes space, so a page that is marked wrongly free is not given away before it is marked.
//! - K4. A repair goes in rounds of transactions, each of which leaves the pool no worse; after a crash the next repair
//!   goes on from there. A repair of a sound pool opens and closes it, and changes nothing else.
//!   Of the lanes it applies every record that verifies, in order: those behind a lost one were acknowledged too, and
//!   where they built on it the tables do not agree, which is found next.
//! - K5. What cannot be put right is told; a tag is given up for who names it; what a repair gives up for lost is told by name, as far as it is known.
//! - K6. Where another one names pages of a tag, too, nothing of what the tag holds is changed: they may be the other's.

mod allocator_tables;
mod check_report;
mod damage_repair;
mod page_claims;
mod table_check;
mod tag_owner;
mod word_patch;

use std::collections::BTreeSet;
use std::sync::Arc;

use ferrite_memory::Memory;

pub use check_report::{CheckFinding, PoolCheckReport, Severity, TagFindings};
pub use tag_owner::{MovedRange, TagOwner, TagOwners};

use crate::Progress;
use crate::checked_word::salt;
use crate::layout::{CHUNK, CHUNK_PAGES, SUPERBLOCKS};
use crate::overlay::MemoryOverlay;
use crate::pool::open_pool::Recovery;
use crate::redo::Redo;
use crate::superblock::Superblock;
use crate::{Error, Pool, Result};
use check_report::place;
use table_check::TableCheck;

/// Rounds after which a repair gives up: one for each broken page of the tag table, and a few for what that uncovers.
const ROUNDS_MAX: usize = 64;

/// Checks the pool in `memory`, which nobody has open. Nothing is written (K1).
pub fn check(memory: &Arc<dyn Memory>, owners: &TagOwners, watch: &mut dyn FnMut(Progress)) -> PoolCheckReport {
    let mut report = PoolCheckReport::default();
    let Some(superblock) = look_at_copies(&**memory, &mut report, false) else { return report };
    let preview: Arc<dyn Memory> = Arc::new(MemoryOverlay::new(Arc::clone(memory)));
    match Pool::open_damaged(preview, superblock.boot_id) {
        Ok((pool, recovery, lost)) => {
            report.note_recovery(&recovery);
            report.note_lost(&lost, None);
            report.findings.extend(TableCheck::of(pool.memory(), pages(&pool)).into_findings());
            walk(&pool, owners, &mut report, watch);
        }
        Err(error) => report.not_opened(&error),
    }
    report
}

/// Checks a pool that is open and maybe at work: it stands still meanwhile. Nothing is written.
pub fn check_open(pool: &Pool, owners: &TagOwners, watch: &mut dyn FnMut(Progress)) -> PoolCheckReport {
    let mut report = PoolCheckReport::default();
    let frozen = pool.freeze();
    if look_at_copies(pool.memory(), &mut report, false).is_some() {
        report.findings.extend(TableCheck::of(pool.memory(), pages(frozen.pool())).into_findings());
        walk(pool, owners, &mut report, watch);
    }
    report
}

/// Checks the pool in `memory`, which nobody has open, and repairs what has one right answer (K2). Durable on return,
/// and the pool is closed. Of tags that cannot be read it gives up those that `lose` names, as a check told them; the
/// others, and all space that may be theirs, stay as they are. Names of which nothing is given up are told.
///
/// # Errors
/// As [`Pool::open`] and as [`Pool`] says, and [`Error::Limit`] where it makes no end; what was repaired before stays
/// so. A pool that cannot be opened at first is no error but told in the report.
pub fn repair(
    memory: &Arc<dyn Memory>,
    owners: &TagOwners,
    lose: &[String],
    watch: &mut dyn FnMut(Progress),
) -> Result<PoolCheckReport> {
    let first = check(memory, &TagOwners::none(), &mut |_| ());
    if !first.opened {
        return Ok(first);
    }
    let (mut report, mut kept) = (PoolCheckReport::default(), BTreeSet::from_iter(lose));
    let Some(superblock) = look_at_copies(&**memory, &mut report, true) else { return Ok(first) };
    for round in 0..ROUNDS_MAX {
        let (pool, recovery, lost) = Pool::open_damaged(Arc::clone(memory), superblock.boot_id)?;
        if round == 0 {
            report.note_recovery(&recovery);
        }
        report.note_lost(&lost, Some("given up: all others were applied; what it alone changed is lost"));
        let structure = TableCheck::of(pool.memory(), pages(&pool)).losing_only(lose);
        kept.retain(|name| !structure.may_lose(name));
        if structure.has_repairs() {
            report.findings.extend(structure.repair(&pool)?);
            continue;
        }
        let entangled = structure.entangled.clone();
        report.findings.extend(structure.into_findings());
        report.note_kept(kept, |name| pool.tag(name).is_ok());
        walk_and_repair(&pool, owners, &entangled, &mut report, watch)?;
        pool.close()?;
        return Ok(report);
    }
    Err(Error::Limit(format!("the repair made no end in {ROUNDS_MAX} rounds: restore a backup")))
}

fn pages(pool: &Pool) -> u64 {
    pool.superblock().size / CHUNK * CHUNK_PAGES
}

/// The superblock, or `None` where it is told that there is none to work with; and what there are two of. `mends`: the
/// pool is opened for writing next, which writes both anew.
fn look_at_copies(memory: &dyn Memory, report: &mut PoolCheckReport, mends: bool) -> Option<Superblock> {
    let current = match Superblock::read(memory) {
        Ok(current) => current,
        Err(error) => {
            report.not_opened(&error);
            return None;
        }
    };
    for at in SUPERBLOCKS {
        let mut bytes = [0; 128];
        memory.load(at, &mut bytes);
        if let Err(error) = Superblock::decode(&bytes) {
            report.note_copy(
                at,
                format!("one of the two superblocks cannot be used ({error}); the other one is"),
                mends,
            );
        }
    }
    if let Ok(redo) = Redo::read(memory, salt(&current.uuid)) {
        for at in redo.damaged_words() {
            let what = "one of the two words that tell what is retired cannot be used; the other one is";
            report.note_copy(at, what.into(), mends);
        }
    }
    Some(current)
}

/// Lets each tag's owner walk it.
fn walk(pool: &Pool, owners: &TagOwners, report: &mut PoolCheckReport, watch: &mut dyn FnMut(Progress)) {
    let visit = |owner: &dyn TagOwner, tag: &crate::Tag, findings: &mut TagFindings<'_>| {
        owner.walk(pool, tag, findings);
        Ok(())
    };
    each_tag(pool, owners, report, watch, &visit).expect("walking returns no error");
}

/// As [`walk`], and the owners repair what they can, but in tags that are `entangled` (K6).
fn walk_and_repair(
    pool: &Pool,
    owners: &TagOwners,
    entangled: &BTreeSet<String>,
    report: &mut PoolCheckReport,
    watch: &mut dyn FnMut(Progress),
) -> Result<()> {
    each_tag(pool, owners, report, watch, &|owner, tag, findings| {
        if entangled.contains(&tag.name) {
            owner.walk(pool, tag, findings);
            return Ok(());
        }
        owner.repair(pool, tag, findings)
    })
}

type TagVisit<'a> = dyn Fn(&dyn TagOwner, &crate::Tag, &mut TagFindings<'_>) -> Result<()> + 'a;

fn each_tag(
    pool: &Pool,
    owners: &TagOwners,
    report: &mut PoolCheckReport,
    watch: &mut dyn FnMut(Progress),
    visit: &TagVisit<'_>,
) -> Result<()> {
    let tags = pool.tags();
    let (mut done, total) = (0, tags.iter().map(|tag| tag.size).fold(0, u64::saturating_add));
    report.set_sizes(tags.len(), pool.usage());
    for tag in &tags {
        let mut findings = TagFindings::new(&mut report.findings, &tag.name);
        match owners.of(tag.kind) {
            Some(owner) => visit(owner, tag, &mut findings)?,
            None if owners.are_none() => {}
            None => findings.note(
                format!("it is of kind {} ({}), whose content nobody here can check", tag.kind.0, tag.kind.name()),
                None,
            ),
        }
        done += tag.size;
        watch(Progress { done, total, what: "checking".into() });
    }
    Ok(())
}

impl PoolCheckReport {
    fn not_opened(&mut self, error: &Error) {
        self.opened = false;
        self.findings.push(CheckFinding {
            severity: Severity::Error,
            what: format!("it cannot be opened, so it was not touched: {error}"),
            at: place(error),
            tag: None,
            repaired: None,
        });
    }

    /// Tells of a spare copy that is damaged.
    fn note_copy(&mut self, at: u64, what: String, mends: bool) {
        let (severity, repaired) = (Severity::Warning, mends.then(|| "written anew".into()));
        self.findings.push(CheckFinding { severity, what, at: Some(at), tag: None, repaired });
    }

    /// Tells of transactions that damage of the lanes took (lane L7).
    fn note_lost(&mut self, lost: &[Error], done: Option<&str>) {
        self.findings.extend(lost.iter().map(|error| CheckFinding {
            severity: Severity::Error,
            what: format!("what was committed is lost: {error}"),
            at: place(error),
            tag: None,
            repaired: done.map(Into::into),
        }));
    }

    fn note_recovery(&mut self, recovery: &Recovery) {
        if !recovery.clean {
            let count = recovery.replay.transactions;
            self.findings.push(CheckFinding {
                severity: Severity::Note,
                what: format!("it was not closed in order; {count} transactions were to be replayed"),
                at: None,
                tag: None,
                repaired: None,
            });
        }
    }
}

#[cfg(test)]
mod tests;
