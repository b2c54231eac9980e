//! Poison: after a failed persist no change is accepted, because only reopening the pool shows which data is durable.

use std::fmt;
use std::sync::OnceLock;

use crate::{Error, Result};

/// The reason of the first failed persist, if one failed.
#[derive(Debug, Default)]
pub(crate) struct Poison(OnceLock<String>);

impl Poison {
    /// Refuses if a persist failed.
    #[inline]
    pub fn check(&self) -> Result<()> {
        if self.0.get().is_none() { Ok(()) } else { self.refuse() }
    }

    #[cold]
    fn refuse(&self) -> Result<()> {
        self.0.get().map_or(Ok(()), |why| Err(Error::Poisoned(why.clone())))
    }

    /// Notes that a persist failed.
    pub fn note(&self, why: &dyn fmt::Display) {
        let _ = self.0.set(why.to_string());
    }
}
