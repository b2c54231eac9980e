//! Damaged tables, and their repairs.

use ferrite_memory::{Memory, Scheme};

use super::allocator_tables::AllocatorTables;
use super::check_report::{CheckFinding, Severity};
use super::page_claims::PageClaims;
use super::table_check::PlannedRepair;
use super::word_patch;
use crate::damage::TableDamage;
use crate::extent::Extent;
use crate::grant;
use crate::layout::PAGE;
use crate::member;
use crate::overlay::MemoryOverlay;
use crate::tag::{self, SLOT_BYTES};
use crate::tag_table::{SpoiledCopy, TagTable, copies, decode_header, encode_header};

/// The tables of the pool as the check found them.
pub(super) struct CheckedTables<'a> {
    pub memory: &'a dyn Memory,
    pub pages: u64,
    pub table: &'a TagTable,
    pub tables: &'a AllocatorTables,
    pub grants: &'a [Extent],
}

fn new_finding(damage: &TableDamage, what: String, tag: Option<String>) -> CheckFinding {
    CheckFinding { severity: Severity::Error, what, at: Some(damage.at), tag, repaired: None }
}

/// Plans the repair of a damaged grant, whose client is not known any more.
pub(super) fn of_grants(damage: &TableDamage) -> PlannedRepair {
    let what = format!("a grant cannot be read ({}); end the clients of this pool before it is repaired", damage.error);
    let cleared = word_patch::bytes(damage.at, &[0; grant::SLOT_BYTES]).collect();
    PlannedRepair::new(
        new_finding(damage, what, None),
        cleared,
        "cleared: a client that still uses it is no longer known",
    )
}

/// Plans the repair of the table of external members. If two slots name one member, neither is known to be right.
pub(super) fn of_members(memory: &dyn Memory, damage: &TableDamage) -> PlannedRepair {
    let finding = new_finding(damage, format!("an external member cannot be used: {}", damage.error), None);
    let mut bytes = [0; member::SLOT_BYTES];
    memory.load(damage.at, &mut bytes);
    if member::decode_slot(&bytes, damage.at).is_ok() {
        return PlannedRepair::report_only(finding);
    }
    let cleared = word_patch::bytes(damage.at, &[0; member::SLOT_BYTES]).collect();
    PlannedRepair::new(finding, cleared, "cleared: the member is no longer known; attach it again")
}

/// Plans the repair of the tag table.
pub(super) fn of_tags(scene: &CheckedTables<'_>, damage: &TableDamage) -> PlannedRepair {
    if damage.is_slot { of_slot(scene, damage) } else { of_page(scene, damage) }
}

/// Plans the repair of a copy of a tag's slot that does not verify, from the copy that does.
pub(super) fn of_copy(copy: &SpoiledCopy) -> PlannedRepair {
    let SpoiledCopy { at, bytes } = copy;
    let what = "one of the two copies of a tag's slot cannot be used; the other one is used".into();
    let finding =
        CheckFinding { severity: Severity::Warning, what, at: Some(*at), tag: tag::name_of(bytes), repaired: None };
    PlannedRepair::new(finding, word_patch::bytes(*at, bytes).collect(), "written again")
}

fn of_slot(scene: &CheckedTables<'_>, damage: &TableDamage) -> PlannedRepair {
    let mut bytes = [0; SLOT_BYTES];
    scene.memory.load(damage.at, &mut bytes);
    let name = tag::name_of(&bytes);
    let finding = new_finding(damage, format!("a tag cannot be used: {}", damage.error), name.clone());
    let is_whole = matches!(tag::decode_slot(&bytes, damage.at, scene.pages), Ok(Some(_)));
    if is_whole && name.as_ref().is_some_and(|name| scene.table.tags.contains_key(name)) {
        return PlannedRepair::report_only(finding);
    }
    let lost = match &name {
        Some(name) => format!("cleared: tag {name:?} is lost"),
        None => "cleared: the tag is lost, and its name is not known".into(),
    };
    let cleared = copies(damage.at).into_iter().flat_map(|at| word_patch::bytes(at, &[0; SLOT_BYTES])).collect();
    PlannedRepair::new(finding, cleared, lost).losing(name.unwrap_or_else(|| format!("{:#x}", damage.at)))
}

/// Plans the repair of a tag page whose header is damaged, or names an earlier page. The next page is a page in use
/// that has the right form and that no structure names. If there is exactly one such page, it is linked; if there is
/// none, the damaged page was the last one.
fn of_page(scene: &CheckedTables<'_>, damage: &TableDamage) -> PlannedRepair {
    let page = match scene.table.pages.contains(&damage.at) {
        true => *scene.table.pages.last().expect("it contains one"),
        false => damage.at,
    };
    let finding = new_finding(damage, format!("the tag table is broken: {}", damage.error), None);
    let as_last = MemoryOverlay::new(scene.memory);
    as_last.store(page, &encode_header(0), Scheme::Flush);
    let (next, done) = match &orphans(scene, &as_last)[..] {
        [] => (0, "made its page the last one; tags that were listed behind it, if any, are lost"),
        [only] => (*only, "linked it to the only page that can follow"),
        _ => return PlannedRepair::report_only(finding),
    };
    PlannedRepair::new(finding, word_patch::bytes(page, &encode_header(next)).collect(), done)
}

/// Returns pages that begin a chain of tag pages and that no structure names, in the pool as `memory` has it.
fn orphans(scene: &CheckedTables<'_>, memory: &dyn Memory) -> Vec<u64> {
    let (table, _) = TagTable::load(memory, scene.pages);
    let claims = PageClaims::of(&table, scene.grants);
    let lost = scene.tables.normal_pages().filter(|page| !claims.names(*page)).map(|page| page * PAGE);
    let chained: Vec<(u64, u64)> = lost.filter_map(|page| Some((page, next_of(memory, page)?))).collect();
    let is_head = |page: u64| chained.iter().all(|(_, next)| *next != page);
    chained.iter().map(|(page, _)| *page).filter(|page| is_head(*page)).collect()
}

fn next_of(memory: &dyn Memory, page: u64) -> Option<u64> {
    let mut header = [0; 16];
    memory.load(page, &mut header);
    decode_header(&header)
}
