//! Opening objects of a store.

use std::sync::Arc;

use ferrite_memory::Scheme;
use ferrite_pool::FailureKind;
use ferrite_pool::holding::TagLease;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::Store;
use crate::direct_value;
use crate::direct_value::DirectBytes;
use crate::direct_value::DirectValue;
use crate::logged;
use crate::logged::Logged;
use crate::logged::LoggedStructure;
use crate::logged::Logging;
use crate::object_label::ObjectLabel;
use crate::object_log;
use crate::object_log::ObjectLog;
use crate::{Bundle, Map, Queue, Result};

impl Store {
    /// A value of type `T` that is updated in place by `scheme`; made as `initial` if the name is free.
    ///
    /// # Errors
    /// As [`Store::direct_bytes`].
    pub fn direct<T>(&self, name: &str, initial: &T, scheme: Scheme) -> Result<DirectValue<T>>
    where
        T: FromBytes + IntoBytes + Immutable,
    {
        Ok(DirectValue::new(self.direct_bytes(name, initial.as_bytes(), scheme)?))
    }

    /// As [`Store::direct`], of plain bytes.
    ///
    /// # Errors
    /// [`crate::Error::TooLarge`] for more than [`crate::VALUE_BYTES_MAX`] bytes and [`crate::Error::Refused`] for
    /// none, [`crate::Error::WrongType`] also where the value that is there has another length,
    /// [`ferrite_memory::Error::Unsupported`] where this processor lacks the instruction of `scheme`. Else as
    /// [`Store::logged`].
    pub fn direct_bytes(&self, name: &str, initial: &[u8], scheme: Scheme) -> Result<Arc<DirectBytes>> {
        let label = direct_value::label("value", initial.len())?;
        DirectBytes::open(self.hold(name, &label, 0)?, &label, initial, scheme)
    }

    /// Opens a map; makes it if the name is free.
    ///
    /// # Errors
    /// As [`Store::logged`].
    pub fn map(&self, name: &str, logging: Logging) -> Result<Map> {
        Ok(Map::new(self.logged(name, logging)?))
    }

    /// Opens a queue; makes it if the name is free.
    ///
    /// # Errors
    /// As [`Store::logged`].
    pub fn queue(&self, name: &str, logging: Logging) -> Result<Queue> {
        Ok(Queue::new(self.logged(name, logging)?))
    }

    /// Opens maps and queues that change together; makes them if the name is free.
    ///
    /// # Errors
    /// As [`Store::logged`].
    pub fn bundle(&self, name: &str, logging: Logging) -> Result<Bundle> {
        Ok(Bundle::new(self.logged(name, logging)?))
    }

    /// Opens a structure that the caller defines; makes it if the name is free.
    ///
    /// # Errors
    /// [`crate::Error::WrongType`] where the name is something else's, [`crate::Error::Damaged`] where bytes of it are
    /// not what was stored and `logging` does not say to salvage it, [`ferrite_pool::Error::Corrupt`] where its log
    /// does not say where it begins, which no salvage mends. [`ferrite_pool::Error::Busy`] if another user has it open,
    /// [`ferrite_pool::Error::BadName`] where there can be none of that name, [`ferrite_pool::Error::Full`] where there
    /// is no space to make it or to salvage it.
    pub fn logged<S: LoggedStructure>(&self, name: &str, logging: Logging) -> Result<Arc<Logged<S>>> {
        Logged::open(self.hold(name, &logged::label::<S>()?, logging.log_bytes)?, logging)
    }

    /// Opens an append-only log; makes it for `log_bytes` of entries if the name is free.
    ///
    /// # Errors
    /// As [`Store::logged`].
    pub fn log(&self, name: &str, logging: Logging) -> Result<Arc<ObjectLog>> {
        ObjectLog::open(self.hold(name, &object_log::label()?, logging.log_bytes)?, logging.salvage)
    }

    /// Holds the tag called `name`; makes it as `label` says if the name is free.
    fn hold(&self, name: &str, label: &ObjectLabel, log_bytes: u64) -> Result<TagLease> {
        match self.tags.hold(name) {
            Err(error) if error.kind() == FailureKind::NotFound => {}
            other => return Ok(other?),
        }
        match self.tags.create(&label.spec(name, log_bytes)) {
            // Another thread or process was faster.
            Err(error) if error.kind() != FailureKind::Exists => Err(error.into()),
            _ => Ok(self.tags.hold(name)?),
        }
    }
}
