//! The guests that threads are opening. One thread opens a guest, and the others wait for it.

use std::collections::BTreeSet;

use parking_lot::{Condvar, Mutex};

/// The names of the guests that are being opened.
#[derive(Default)]
pub(crate) struct OpeningGuests {
    names: Mutex<BTreeSet<String>>,
    ended: Condvar,
}

/// The right to open a guest. No other thread opens it until this is dropped.
pub(crate) struct OpeningGuest<'a> {
    all: &'a OpeningGuests,
    name: String,
}

impl OpeningGuests {
    /// Begins to open the guest called `name`. Waits until no other thread opens it.
    pub fn begin(&self, name: &str) -> OpeningGuest<'_> {
        let mut names = self.names.lock();
        self.ended.wait_while(&mut names, |names| !names.insert(name.into()));
        OpeningGuest { all: self, name: name.into() }
    }

    /// Begins to open the guest called `name`, unless another thread opens it.
    pub fn try_begin(&self, name: &str) -> Option<OpeningGuest<'_>> {
        self.names.lock().insert(name.into()).then(|| OpeningGuest { all: self, name: name.into() })
    }
}

impl Drop for OpeningGuest<'_> {
    fn drop(&mut self) {
        self.all.names.lock().remove(&self.name);
        self.all.ended.notify_all();
    }
}
