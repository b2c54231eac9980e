//! Check: verifies a pool, and repairs damage that has one right answer.
//!
//! The tables are compared with each other both ways. Every page of every tag and of the pool's own structures has to
//! be in use and in its zone, no page may be in two places, and no page may be in use that no structure names. Then
//! each tag's owner walks the tag's content.
//!
//! - K1. A check writes nothing: it replays the records that a crash left into DRAM, and checks the result. A repair
//!   does not write a pool that cannot be opened either.
//! - K2. A repair sets the tables to the state that the rest of the pool implies. Pages that a tag names are marked.
//!   Pages that no structure names are freed, but only if no damage can hide such a name.
//! - K3. A repair takes no space, so a page that is wrongly marked as free is not allocated before it is marked.
//! - K4. A repair runs in rounds of transactions, each of which leaves the pool no worse; after a crash the next repair
//!   continues. A repair of a sound pool opens and closes it, and changes nothing else. From the lanes it applies every
//!   record that verifies, in order. Records behind a lost one were acknowledged too; if they depend on the lost one
//!   the tables disagree, and the next round finds that.
//! - K5. Damage that cannot be repaired is reported. A tag is given up only if the caller names it. A repair reports by
//!   name, as far as it is known, everything that it gives up.
//! - K6. If another structure also names pages of a tag, the tag's content is not changed, because the pages may belong
//!   to the other.

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

/// Rounds after which a repair gives up: one for each broken page of the tag table, and a few for damage that these
/// repairs reveal.
const ROUNDS_MAX: usize = 64;

/// Checks the closed pool in `memory`. Writes nothing (K1).
pub fn check(memory: &Arc<dyn Memory>, owners: &TagOwners, watch: &mut dyn FnMut(Progress)) -> PoolCheckReport {
    let mut report = PoolCheckReport::default();
    let Some(superblock) = check_copies(&**memory, &mut report, false) else { return report };
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

/// Checks an open pool, which is frozen during the check. Writes nothing.
pub fn check_open(pool: &Pool, owners: &TagOwners, watch: &mut dyn FnMut(Progress)) -> PoolCheckReport {
    let mut report = PoolCheckReport::default();
    let frozen = pool.freeze();
    if check_copies(pool.memory(), &mut report, false).is_some() {
        report.findings.extend(TableCheck::of(pool.memory(), pages(frozen.pool())).into_findings());
        walk(pool, owners, &mut report, watch);
    }
    report
}

/// Repairs the closed pool in `memory` where damage has one right answer (K2). The pool is durable and closed on
/// return. Of unreadable tags it gives up those that `lose` names as a check reported them. Other unreadable tags, and
/// all space that may belong to them, stay. The report lists names of which nothing was given up.
///
/// # Errors
/// As [`Pool::open`] and as [`Pool`] says, and [`Error::Limit`] if the rounds do not end; earlier repairs stay. A pool
/// that cannot be opened at first is not an error but a finding in the report.
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
    let Some(superblock) = check_copies(&**memory, &mut report, true) else { return Ok(first) };
    for round in 0..ROUNDS_MAX {
        let (pool, recovery, lost) = Pool::open_damaged(Arc::clone(memory), superblock.boot_id)?;
        if round == 0 {
            report.note_recovery(&recovery);
        }
        report.note_lost(&lost, Some("given up: all other transactions were applied, and its changes are lost"));
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
    Err(Error::Limit(format!("the repair did not end in {ROUNDS_MAX} rounds: restore a backup")))
}

fn pages(pool: &Pool) -> u64 {
    pool.superblock().size / CHUNK * CHUNK_PAGES
}

/// Reads the superblock and reports damaged copies of it and of the retired word. Returns `None`, with a finding, if no
/// superblock can be used. `rewrites`: the pool is opened for writing next, which rewrites both copies.
fn check_copies(memory: &dyn Memory, report: &mut PoolCheckReport, rewrites: bool) -> Option<Superblock> {
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
                format!("one of the two superblocks cannot be used ({error}); the other one is used"),
                rewrites,
            );
        }
    }
    if let Ok(redo) = Redo::read(memory, salt(&current.uuid)) {
        for at in redo.damaged_words() {
            let what = "one of the two copies of the retired word cannot be used; the other one is used";
            report.note_copy(at, what.into(), rewrites);
        }
    }
    Some(current)
}

/// Walks each tag by its owner.
fn walk(pool: &Pool, owners: &TagOwners, report: &mut PoolCheckReport, watch: &mut dyn FnMut(Progress)) {
    let visit = |owner: &dyn TagOwner, tag: &crate::Tag, findings: &mut TagFindings<'_>| {
        owner.walk(pool, tag, findings);
        Ok(())
    };
    each_tag(pool, owners, report, watch, &visit).expect("walking returns no error");
}

/// Walks and repairs each tag by its owner, except that `entangled` tags are only walked (K6).
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
                format!("it is of kind {} ({}), whose content this program cannot check", tag.kind.0, tag.kind.name()),
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
            what: format!("it cannot be opened, so nothing was changed: {error}"),
            at: place(error),
            tag: None,
            repaired: None,
        });
    }

    /// Adds a finding for a damaged spare copy.
    fn note_copy(&mut self, at: u64, what: String, rewrites: bool) {
        let (severity, repaired) = (Severity::Warning, rewrites.then(|| "written again".into()));
        self.findings.push(CheckFinding { severity, what, at: Some(at), tag: None, repaired });
    }

    /// Adds a finding for each transaction that damage of the lanes lost (lane L7).
    fn note_lost(&mut self, lost: &[Error], done: Option<&str>) {
        self.findings.extend(lost.iter().map(|error| CheckFinding {
            severity: Severity::Error,
            what: format!("a committed transaction is lost: {error}"),
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
                what: format!("it was not closed in order; {count} transactions had to be replayed"),
                at: None,
                tag: None,
                repaired: None,
            });
        }
    }
}

#[cfg(test)]
mod tests;
