//! The pool's own tables, compared with each other.

use std::collections::{BTreeMap, BTreeSet};

use ferrite_memory::Memory;

use super::allocator_tables::AllocatorTables;
use super::check_report::{CheckFinding, Severity};
use super::damage_repair::{self, CheckedTables};
use super::page_claims::{PageClaimant, PageClaims};
use super::word_patch::{self, WordPatch};
use crate::grant::Grants;
use crate::layout::{CHUNK_PAGES, PAGE};
use crate::member;
use crate::tag_table::TagTable;
use crate::{Pool, Result};

/// A finding and its repair.
pub(super) struct PlannedRepair {
    finding: CheckFinding,
    patches: Vec<WordPatch>,
    done: String,
    /// The name, which the caller has to repeat, of the tag that the repair gives up.
    loses: Option<String>,
}

impl PlannedRepair {
    /// Returns a repair by `patches`, which `done` describes. Without patches the finding is only reported.
    pub fn new(finding: CheckFinding, patches: Vec<WordPatch>, done: impl Into<String>) -> Self {
        Self { finding, patches, done: done.into(), loses: None }
    }

    /// Makes this a repair that gives up the tag `name`, so that it is done only if the caller names it.
    pub fn losing(mut self, name: String) -> Self {
        self.finding.what += &format!("; to give it up and free its space, repair with --lose {name:?}");
        self.loses = Some(name);
        self
    }

    /// Returns a finding that has no one right answer.
    pub fn report_only(finding: CheckFinding) -> Self {
        Self::new(finding, Vec::new(), "")
    }
}

/// All damage of the tables.
pub(super) struct TableCheck {
    found: Vec<PlannedRepair>,
    /// Tags with pages that another structure names too.
    pub entangled: BTreeSet<String>,
}

impl TableCheck {
    /// Checks a recovered pool of `pages` pages. Writes nothing.
    pub fn of(memory: &dyn Memory, pages: u64) -> Self {
        let (table, damage) = TagTable::load(memory, pages);
        let (grants, grant_damage) = Grants::claims(memory, pages);
        let tables = AllocatorTables::load(memory, pages / CHUNK_PAGES);
        let claims = PageClaims::of(&table, &grants);
        let complete = damage.is_empty() && grant_damage.is_empty();
        let scene = CheckedTables { memory, pages, table: &table, tables: &tables, grants: &grants };
        let mut found: Vec<PlannedRepair> =
            damage.iter().map(|damage| damage_repair::of_tags(&scene, damage)).collect();
        found.extend(table.spoiled.iter().map(damage_repair::of_copy));
        found.extend(grant_damage.iter().map(damage_repair::of_grants));
        found.extend(member::damage(memory).iter().map(|damage| damage_repair::of_members(memory, damage)));
        found.extend(doubles(&claims).map(PlannedRepair::report_only));
        found.extend(twins(&table).map(PlannedRepair::report_only));
        found.extend(tables.against(&claims, complete));
        let others = claims.doubles().into_iter().flat_map(|double| double.by);
        let entangled = others.chain(claims.in_tables().map(|(_, who)| who)).filter_map(PageClaimant::tag).collect();
        Self { found, entangled }
    }

    /// Keeps only those repairs that give up nothing except the tags in `lose`.
    pub fn losing_only(mut self, lose: &[String]) -> Self {
        let kept =
            self.found.iter_mut().filter(|planned| planned.loses.as_ref().is_some_and(|name| !lose.contains(name)));
        kept.for_each(|planned| planned.patches.clear());
        self
    }

    /// Returns true if a repair gives up the tag `name`.
    pub fn may_lose(&self, name: &str) -> bool {
        self.found.iter().any(|planned| planned.loses.as_deref() == Some(name))
    }

    /// Returns true if there is a repair.
    pub fn has_repairs(&self) -> bool {
        self.found.iter().any(|planned| !planned.patches.is_empty())
    }

    /// Returns the findings.
    pub fn into_findings(self) -> impl Iterator<Item = CheckFinding> {
        self.found.into_iter().map(|planned| planned.finding)
    }

    /// Makes all repairs, durable on return, and returns their findings. The next check finds the rest.
    pub fn repair(self, pool: &Pool) -> Result<Vec<CheckFinding>> {
        let patches: Vec<WordPatch> = self.found.iter().flat_map(|planned| planned.patches.iter().copied()).collect();
        word_patch::apply(pool, &patches)?;
        let repaired = self.found.into_iter().filter(|planned| !planned.patches.is_empty());
        Ok(repaired.map(|planned| CheckFinding { repaired: Some(planned.done), ..planned.finding }).collect())
    }
}

/// Returns the pages that two structures name; neither is known to be right.
fn doubles<'a>(claims: &'a PageClaims<'_>) -> impl Iterator<Item = CheckFinding> + 'a {
    let doubles = claims.doubles().into_iter().map(|double| CheckFinding {
        severity: Severity::Error,
        what: format!(
            "{} pages are named by {} and by {}: the content is that of the last write; restore a backup",
            double.pages, double.by[0], double.by[1]
        ),
        at: Some(double.page * PAGE),
        tag: double.by[0].tag().or(double.by[1].tag()),
        repaired: None,
    });
    let outside = claims.in_tables().map(|(extent, who)| CheckFinding {
        severity: Severity::Error,
        what: format!("{who} names pages of the pool's own tables; restore a backup"),
        at: Some(extent.span().at),
        tag: who.tag(),
        repaired: None,
    });
    doubles.chain(outside)
}

/// Returns the tags with the generation of another tag (tag table T3).
fn twins(table: &TagTable) -> impl Iterator<Item = CheckFinding> {
    let mut known = BTreeMap::new();
    let twins = table.tags.iter().filter_map(move |(name, entry)| {
        let other = known.insert(entry.tag.generation, name.clone())?;
        Some(CheckFinding {
            severity: Severity::Warning,
            what: format!("it has the generation of tag {other:?}: make one of the two again"),
            at: Some(entry.slot),
            tag: Some(name.clone()),
            repaired: None,
        })
    });
    twins.collect::<Vec<_>>().into_iter()
}
