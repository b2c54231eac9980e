//! The report of a check.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::page_allocator::SpaceUsage;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Information; nothing is wrong.
    Note,
    /// Damage without loss: space that cannot be used, or a damaged spare copy.
    Warning,
    /// Data is lost, or will be.
    Error,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckFinding {
    /// The severity.
    pub severity: Severity,
    /// The damage.
    pub what: String,
    /// The byte offset in the pool, if the damage has one place.
    pub at: Option<u64>,
    /// The name of the damaged tag.
    pub tag: Option<String>,
    /// The repair, and the data that it lost.
    pub repaired: Option<String>,
}

/// The result of a check or a repair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolCheckReport {
    /// True if the pool could be opened.
    pub opened: bool,
    /// The number of usable tags.
    pub tags: u64,
    /// The use of the pool's space.
    pub usage: SpaceUsage,
    /// The findings: the tables first, then tag by tag.
    pub findings: Vec<CheckFinding>,
    /// Names that a repair should give up and that do not exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}

impl Default for PoolCheckReport {
    fn default() -> Self {
        Self { opened: true, tags: 0, usage: SpaceUsage::default(), findings: Vec::new(), unknown: Vec::new() }
    }
}

impl PoolCheckReport {
    /// Returns true if the pool has no damage, or all of it is repaired.
    pub fn is_sound(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity == Severity::Note || finding.repaired.is_some())
    }

    /// Adds a note for each of `names` of which nothing was given up. `is_tag` returns true for readable tags.
    pub(super) fn note_kept(&mut self, names: BTreeSet<&String>, is_tag: impl Fn(&str) -> bool) {
        for name in names {
            if is_tag(name) {
                TagFindings::new(&mut self.findings, name).note("it is readable and was not given up", None);
            } else {
                self.unknown.push(name.clone());
            }
        }
    }

    pub(super) fn set_sizes(&mut self, tags: usize, usage: SpaceUsage) {
        (self.tags, self.usage) = (tags as u64, usage);
    }
}

pub(super) fn place(error: &Error) -> Option<u64> {
    if let Error::Corrupt { at, .. } = error { Some(*at) } else { None }
}

/// The findings of a tag's owner.
#[derive(Debug)]
pub struct TagFindings<'a> {
    all: &'a mut Vec<CheckFinding>,
    tag: &'a str,
}

impl<'a> TagFindings<'a> {
    pub(super) fn new(all: &'a mut Vec<CheckFinding>, tag: &'a str) -> Self {
        Self { all, tag }
    }

    /// Adds a finding; `at` is its byte offset in the pool.
    pub fn add(&mut self, severity: Severity, what: impl Into<String>, at: Option<u64>) {
        let (what, tag) = (what.into(), Some(self.tag.into()));
        self.all.push(CheckFinding { severity, what, at, tag, repaired: None });
    }

    /// Adds damage and its repair. Call this once the repair is durable.
    pub fn repaired(&mut self, what: impl Into<String>, at: Option<u64>, done: impl Into<String>) {
        self.add(Severity::Warning, what, at);
        self.all.last_mut().expect("added just now").repaired = Some(done.into());
    }

    /// Adds the finding that data is lost, or will be.
    pub fn error(&mut self, what: impl Into<String>, at: Option<u64>) {
        self.add(Severity::Error, what, at);
    }

    /// Adds information.
    pub fn note(&mut self, what: impl Into<String>, at: Option<u64>) {
        self.add(Severity::Note, what, at);
    }
}
