//! The faults of a device, and the requests that meet them.

use ferrite_memory::Span;
use ferrite_memory::mix::{FACTORS, fold};

use crate::Op;

/// The faults of a device. The first rule that chooses a request decides what happens to it. Without rules, and for
/// requests that no rule chooses, the device works.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// The rules, most important first.
    pub rules: Vec<FaultRule>,
}

impl FaultPlan {
    /// Returns the plan of one rule.
    pub fn of(action: FaultAction, when: FaultCondition) -> Self {
        Self { rules: vec![FaultRule { action, when }] }
    }
}

/// What happens to the requests that a condition chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultRule {
    /// What happens.
    pub action: FaultAction,
    /// To which requests.
    pub when: FaultCondition,
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultAction {
    /// The request fails and changes nothing.
    Error(FaultError),
    /// The request waits until another plan is set, which judges it again.
    Hang,
    /// A read succeeds with a flipped bit in each of its sectors, within the condition's span. The medium stays as it is.
    Corrupt,
    /// From the first chosen request on, requests that reach beyond this many bytes fail.
    Truncate(u64),
    /// From the first chosen request on, every request fails.
    Drop,
}

/// The error of [`FaultAction::Error`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FaultError {
    /// [`ferrite_memory::Error::Io`] with EIO.
    #[default]
    Io,
    /// [`ferrite_memory::Error::NoSpace`].
    NoSpace,
    /// [`ferrite_memory::Error::Damaged`] at the request's first byte.
    Damaged,
    /// [`ferrite_memory::Error::Poisoned`].
    Poisoned,
}

/// The kinds of requests. Extents count as reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOp {
    /// A read.
    Read,
    /// A write.
    Write,
    /// A flush.
    Flush,
    /// A trim.
    Trim,
    /// A zeroing.
    Zero,
}

impl FaultOp {
    /// Returns the kind of `op`.
    pub fn of(op: Op) -> Self {
        match op {
            Op::Read => Self::Read,
            Op::Write(_) => Self::Write,
            Op::Flush => Self::Flush,
            Op::Trim(_) => Self::Trim,
            Op::Zero(_) => Self::Zero,
        }
    }
}

/// A share of all requests, chosen by their number and a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultChance {
    /// Chosen requests in `of`.
    pub chosen: u32,
    /// At least 1.
    pub of: u32,
    /// Another seed chooses others.
    pub seed: u64,
}

/// Which requests a rule chooses: those that meet every part that is set. Requests are numbered from 0, in the order in
/// which the disk gets them from all threads and queues, refused ones too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCondition {
    /// The request of this number.
    pub request: Option<u64>,
    /// The request of this number and all after it.
    pub from: Option<u64>,
    /// Requests number n - 1, 2n - 1, and so on; at least 1.
    pub every: Option<u64>,
    /// Requests that touch a byte of this span.
    pub span: Option<Span>,
    /// Requests of this kind.
    pub op: Option<FaultOp>,
    /// A share of the requests.
    pub chance: Option<FaultChance>,
}

impl FaultCondition {
    /// Returns true if the condition chooses request `number`, of kind `op`, that touches `span`.
    pub(super) fn chooses(&self, number: u64, op: FaultOp, span: Span) -> bool {
        self.request.is_none_or(|request| number == request)
            && self.from.is_none_or(|from| number >= from)
            && self.every.is_none_or(|every| (number + 1).is_multiple_of(every.max(1)))
            && self.span.is_none_or(|chosen| overlap(chosen, span))
            && self.op.is_none_or(|chosen| chosen == op)
            && self.chance.is_none_or(|chance| {
                let mixed = fold(fold(number ^ FACTORS[1], FACTORS[0]) ^ chance.seed, FACTORS[1]);
                mixed % u64::from(chance.of.max(1)) < u64::from(chance.chosen)
            })
    }
}

fn overlap(a: Span, b: Span) -> bool {
    let end = |span: Span| span.end().unwrap_or(u64::MAX);
    a.len > 0 && b.len > 0 && a.at < end(b) && b.at < end(a)
}
