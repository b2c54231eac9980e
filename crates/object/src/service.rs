//! Objects as a service that a program links. Processes hold objects by the service "lease", so there are no requests.

use std::sync::Arc;

use ferrite_owner::{Metric, RunningService, Service, ServiceCall, ServicePool, ServiceReply};
use ferrite_pool::check::{MovedRange, TagFindings, TagOwner};
use ferrite_pool::{Error as PoolError, Failure, FailureKind, LogView, Pool, Result, Tag, TagKind, relocate_log};

use crate::object_label::{ObjectForm, ObjectLabel};
use crate::{direct_value, logged, object_counts, object_log};

/// The service of objects.
#[derive(Clone, Copy, Debug, Default)]
pub struct ObjectService;

impl TagOwner for ObjectService {
    fn kind(&self) -> TagKind {
        TagKind::OBJECT
    }

    fn walk(&self, pool: &Pool, tag: &Tag, findings: &mut TagFindings<'_>) {
        let uuid = pool.superblock().uuid;
        let Some(label) = ObjectLabel::of(tag) else {
            return findings.error("this program does not know its label: use a newer ferrite", None);
        };
        // The objects that this process has open are frozen. An object that another process changes would seem damaged.
        if let Some(pid) = pool.user_of(tag) {
            return findings
                .note(format!("process {pid} has it open: it is checked after that process closes it"), None);
        }
        if label.form == ObjectForm::Direct {
            match direct_value::check(pool.memory(), &uuid, tag, &label) {
                Some((what, at, true)) => findings.error(format!("{what}: restore a backup"), Some(at)),
                Some((what, at, false)) => findings.note(what, Some(at)),
                None => {}
            }
            return;
        }
        let view = LogView::of(pool, tag);
        if let Err(error) = &view {
            let at = if let PoolError::Corrupt { at, .. } = error { Some(*at) } else { None };
            findings.error(error.to_string(), at);
        }
        let losses = match (label.form, view.ok()) {
            (ObjectForm::Log, view) => {
                view.map_or_else(Vec::new, |view| object_log::check(pool.memory(), &uuid, tag, &view))
            }
            (_, view) => logged::check(pool.memory(), &uuid, tag, view),
        };
        for loss in losses {
            findings.error(format!("{} is damaged: salvage it, or restore a backup", loss.what), Some(loss.at));
        }
    }

    /// Relocates a tag: checkpoints and values do not depend on their place; the head of a log does.
    fn relocate(&self, pool: &Pool, tag: &Tag, moved: &MovedRange) -> Result<()> {
        match ObjectLabel::of(tag).map(|label| label.form) {
            Some(ObjectForm::Direct) => Ok(()),
            Some(ObjectForm::Logged | ObjectForm::Log) => relocate_log(pool, tag, moved),
            None => Err(PoolError::Busy(format!("no service of this program knows what {:?} holds", tag.name))),
        }
    }
}

/// The name of the service.
const OBJECT: &str = "object";

impl Service for ObjectService {
    fn name(&self) -> &'static str {
        OBJECT
    }

    fn start(&self, pool: &ServicePool<'_>) -> std::result::Result<Arc<dyn RunningService>, Failure> {
        Ok(Arc::new(RunningObjects(Arc::clone(pool.pool))))
    }
}

/// Objects of an open pool.
struct RunningObjects(Arc<Pool>);

impl RunningService for RunningObjects {
    fn call(&self, call: ServiceCall<'_>) -> std::result::Result<ServiceReply, Failure> {
        let why = format!("the service {:?} of this version has no requests", call.service);
        Err(Failure::new(FailureKind::BadRequest, why))
    }

    fn metrics(&self) -> Vec<Metric> {
        object_counts::metrics(&self.0)
    }
}
