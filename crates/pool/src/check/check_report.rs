//! What a check finds.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::page_allocator::SpaceUsage;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; nothing is wrong.
    Note,
    /// Wrong, but nothing is lost: space that cannot be used, a spare copy that is damaged.
    Warning,
    /// Something is lost, or will be.
    Error,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckFinding {
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong.
    pub what: String,
    /// Where in the pool, in bytes, if it is in one place.
    pub at: Option<u64>,
    /// The tag it is about.
    pub tag: Option<String>,
    /// What was done about it, and what was lost by that.
    pub repaired: Option<String>,
}

/// All that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolCheckReport {
    /// Whether the pool could be opened.
    pub opened: bool,
    /// Tags that can be used.
    pub tags: u64,
    /// How its space is used.
    pub usage: SpaceUsage,
    /// In the order of looking: the tables first, then tag by tag.
    pub findings: Vec<CheckFinding>,
    /// What a repair was to give up, and is not there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}

impl Default for PoolCheckReport {
    fn default() -> Self {
        Self { opened: true, tags: 0, usage: SpaceUsage::default(), findings: Vec::new(), unknown: Vec::new() }
    }
}

impl PoolCheckReport {
    /// Whether nothing is wrong (any more).
    pub fn is_sound(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity == Severity::Note || finding.repaired.is_some())
    }

    /// Tells of the names that were to be given up, where nothing was; `is_tag` knows those that can be read.
    pub(super) fn note_kept(&mut self, names: BTreeSet<&String>, is_tag: impl Fn(&str) -> bool) {
        for name in names {
            if is_tag(name) {
                TagFindings::new(&mut self.findings, name).note("nothing of it had to be given up", None);
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

/// Where the owner of a tag tells what it finds.
#[derive(Debug)]
pub struct TagFindings<'a> {
    all: &'a mut Vec<CheckFinding>,
    tag: &'a str,
}

impl<'a> TagFindings<'a> {
    pub(super) fn new(all: &'a mut Vec<CheckFinding>, tag: &'a str) -> Self {
        Self { all, tag }
    }

    /// Tells something; `at` is where in the pool, in bytes.
    pub fn tell(&mut self, severity: Severity, what: impl Into<String>, at: Option<u64>) {
        let (what, tag) = (what.into(), Some(self.tag.into()));
        self.all.push(CheckFinding { severity, what, at, tag, repaired: None });
    }

    /// Tells what was wrong and what was done about it. Call it when that is durable.
    pub fn repaired(&mut self, what: impl Into<String>, at: Option<u64>, done: impl Into<String>) {
        self.tell(Severity::Warning, what, at);
        self.all.last_mut().expect("told just now").repaired = Some(done.into());
    }

    /// Tells that something is lost, or will be.
    pub fn error(&mut self, what: impl Into<String>, at: Option<u64>) {
        self.tell(Severity::Error, what, at);
    }

    /// Tells what is worth knowing.
    pub fn note(&mut self, what: impl Into<String>, at: Option<u64>) {
        self.tell(Severity::Note, what, at);
    }
}
