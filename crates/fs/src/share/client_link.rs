//! The link from the layers below to the clients.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use crate::Ino;
use crate::share::appenders;
use crate::share::client_pins::ClientPins;
use crate::share::layout::shared_state::SharedState;
use crate::share::shared_files::SharedFiles;
use crate::store::clients::{Appender, Clients, RevokedAppend};
use crate::store::locks::Stripe;

/// See the module.
pub struct ClientLink {
    shared_state: Arc<SharedState>,
    pub(crate) pins: ClientPins,
    /// Leases in use, and how many of them allow stores.
    pub(crate) leases: AtomicUsize,
    pub(crate) writers: AtomicUsize,
    /// Files whose cached attributes the next step must drop.
    pub(crate) stale: Mutex<BTreeSet<Ino>>,
    shared: OnceLock<Weak<SharedFiles>>,
}

impl std::fmt::Debug for ClientLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientLink").field("pins", &self.pins).finish_non_exhaustive()
    }
}

impl ClientLink {
    /// No client yet, on `shared_state`.
    pub(crate) fn new(shared_state: &Arc<SharedState>) -> Self {
        Self {
            shared_state: Arc::clone(shared_state),
            pins: ClientPins::new(shared_state),
            leases: AtomicUsize::new(0),
            writers: AtomicUsize::new(0),
            stale: Mutex::default(),
            shared: OnceLock::new(),
        }
    }

    /// Connects the layers below with `shared`.
    pub(crate) fn connect(&self, shared: &Arc<SharedFiles>) {
        _ = self.shared.set(Arc::downgrade(shared));
    }

    fn shared(&self) -> Option<Arc<SharedFiles>> {
        self.shared.get()?.upgrade()
    }

    /// Returns true if a client has a lease.
    #[inline]
    pub(crate) fn is_leased(&self) -> bool {
        self.leases.load(Ordering::Acquire) > 0
    }

    /// Returns true if a client has a lease that allows stores.
    #[inline]
    pub(crate) fn has_writers(&self) -> bool {
        self.writers.load(Ordering::SeqCst) > 0
    }
}

impl Clients for ClientLink {
    fn has_sessions(&self) -> bool {
        self.pins.has_sessions()
    }

    fn has_orphaned_clients(&self) -> bool {
        self.pins.has_orphaned_clients()
    }

    fn is_stuck(&self) -> bool {
        self.pins.is_stuck()
    }

    fn holds_back(&self, stripe: Option<u64>) -> bool {
        self.pins.holds_back(stripe)
    }

    fn pass(&self) {
        self.pins.pass();
    }

    fn wait_for_pins(&self) -> bool {
        self.pins.wait_for_pins()
    }

    fn wait_for_pins_on(&self, stripe: u64) -> bool {
        self.pins.wait_for_pins_on(stripe)
    }

    fn suspend_appends(&self, appenders: &mut Vec<Appender>) -> Vec<RevokedAppend> {
        appenders::suspend_appends(&self.shared_state, &self.pins, appenders)
    }

    fn resume_appends(&self, appenders: &[Appender]) {
        appenders::resume_appends(&self.shared_state, appenders);
    }

    fn invalidate_revoked_append(&self, stripe: &mut Stripe, revoked: RevokedAppend) {
        if let Some(shared) = self.shared() {
            shared.invalidate_revoked_append(stripe, revoked);
        }
    }

    fn fold_times(&self, ino: Ino) {
        if self.is_leased()
            && let Some(shared) = self.shared()
        {
            shared.fold_times(ino);
        }
    }

    fn note_stale(&self, ino: Ino) {
        self.stale.lock().insert(ino);
    }
}
