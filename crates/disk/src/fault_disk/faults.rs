//! The faults of a disk while it runs.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use ferrite_memory::{Error, Result, Span};

use super::{FaultAction, FaultError, FaultOp, FaultPlan};
use crate::ReadyEvent;

/// A handle to the faults of a disk and its queues. Clones are the same handle.
#[derive(Clone)]
pub struct Faults(Arc<FaultState>);

struct FaultState {
    control: Mutex<FaultControl>,
    /// Signals that the plan changed.
    changed: Condvar,
}

struct FaultControl {
    plan: FaultPlan,
    /// For each rule, whether it has chosen a request. Drops and truncations stay from then on.
    begun: Vec<bool>,
    plans: u64,
    requests: u64,
    queues: Vec<Weak<ReadyEvent>>,
}

/// A request as the plan sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct JudgedRequest {
    number: u64,
    op: FaultOp,
    span: Span,
}

/// What a plan does to a request.
pub(super) enum FaultVerdict {
    Pass,
    Hang,
    Fail(Error),
    /// Corrupt what is read of this span.
    Corrupt(Span),
}

impl Faults {
    pub(super) fn new(plan: FaultPlan) -> Self {
        let begun = vec![false; plan.rules.len()];
        let control = FaultControl { plan, begun, plans: 0, requests: 0, queues: Vec::new() };
        Self(Arc::new(FaultState { control: Mutex::new(control), changed: Condvar::new() }))
    }

    /// Replaces the plan. It judges all later requests, and those that hang now. An empty plan heals the device.
    pub fn set(&self, plan: FaultPlan) {
        let mut control = self.lock();
        control.begun = vec![false; plan.rules.len()];
        control.plan = plan;
        control.plans += 1;
        control.queues.retain(|queue| {
            queue.upgrade().is_some_and(|queue| {
                queue.signal();
                true
            })
        });
        self.0.changed.notify_all();
    }

    /// Returns the plan.
    pub fn plan(&self) -> FaultPlan {
        self.lock().plan.clone()
    }

    /// Returns the number of requests so far: the bound of a test that fails each in turn.
    pub fn requests(&self) -> u64 {
        self.lock().requests
    }

    /// Signals `queue` when the plan changes.
    pub(super) fn report_changes_to(&self, queue: &Arc<ReadyEvent>) {
        self.lock().queues.push(Arc::downgrade(queue));
    }

    /// Numbers a request.
    pub(super) fn number(&self, op: FaultOp, span: Span) -> JudgedRequest {
        let mut control = self.lock();
        control.requests += 1;
        JudgedRequest { number: control.requests - 1, op, span }
    }

    /// Returns what the plan does to a request now.
    pub(super) fn judge(&self, request: JudgedRequest) -> FaultVerdict {
        self.lock().judge(request)
    }

    /// Waits while the plan hangs `request`. Returns the span of which it corrupts what is read.
    pub(super) fn wait_to_pass(&self, request: JudgedRequest) -> Result<Option<Span>> {
        let mut control = self.lock();
        loop {
            match control.judge(request) {
                FaultVerdict::Pass => return Ok(None),
                FaultVerdict::Corrupt(span) => return Ok(Some(span)),
                FaultVerdict::Fail(error) => return Err(error),
                FaultVerdict::Hang => {}
            }
            let plans = control.plans;
            while control.plans == plans {
                control = self.0.changed.wait(control).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, FaultControl> {
        self.0.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FaultControl {
    fn judge(&mut self, JudgedRequest { number, op, span }: JudgedRequest) -> FaultVerdict {
        for (rule, begun) in self.plan.rules.iter().zip(&mut self.begun) {
            let is_chosen = rule.when.chooses(number, op, span);
            *begun |= is_chosen;
            let failed = |why: String| FaultVerdict::Fail(Error::io(why, io::Error::from_raw_os_error(libc::EIO)));
            match rule.action {
                FaultAction::Drop if *begun => return failed("the fault plan dropped the device".into()),
                FaultAction::Truncate(size) if *begun && span.end().is_none_or(|end| end > size) && span.len > 0 => {
                    return failed(format!("the fault plan truncated the device to {size} bytes"));
                }
                FaultAction::Drop | FaultAction::Truncate(_) => {}
                _ if !is_chosen => {}
                FaultAction::Hang => return FaultVerdict::Hang,
                FaultAction::Corrupt => {
                    return FaultVerdict::Corrupt(rule.when.span.unwrap_or(Span::new(0, u64::MAX)));
                }
                FaultAction::Error(FaultError::Io) => return failed(format!("the fault plan fails request {number}")),
                FaultAction::Error(FaultError::NoSpace) => {
                    return FaultVerdict::Fail(Error::NoSpace(format!("the fault plan fails request {number}")));
                }
                FaultAction::Error(FaultError::Damaged) => return FaultVerdict::Fail(Error::Damaged(span.at)),
                FaultAction::Error(FaultError::Poisoned) => {
                    return FaultVerdict::Fail(Error::Poisoned(format!("the fault plan fails request {number}")));
                }
            }
        }
        FaultVerdict::Pass
    }
}
