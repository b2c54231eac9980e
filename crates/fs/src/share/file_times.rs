//! Times that clients note in the shared state, and how the inode gets them.

use crate::Ino;
use crate::file::size;
use crate::format::noted_times::NotedTimes;
use crate::share::shared_files::SharedFiles;
use crate::store::locks::Stripe;

impl SharedFiles {
    /// Stores to the inode when clients wrote to the file and read from it.
    pub(crate) fn fold_times(&self, ino: Ino) {
        if !self.link.is_leased() {
            return;
        }
        let shared_state = &self.space.shared_state;
        // While changes wait they stay in the shared state.
        let is_noted =
            self.sessions.table.lock().of(ino).any(|entry| !shared_state.noted_times(entry.slot).is_nothing());
        if is_noted
            && self.refuse_if_read_only().is_ok()
            && let Some(_pass) = self.gate.try_pass()
        {
            let stripe = self.locks.write(ino);
            let found: Vec<NotedTimes> =
                self.sessions.table.lock().of(ino).map(|entry| shared_state.take_noted_times(entry.slot)).collect();
            self.keep_times(&stripe, ino, &found);
        }
    }

    /// Stores the noted times of all files.
    pub(crate) fn fold_all_times(&self) {
        if self.link.is_leased() {
            let inos: Vec<u64> = self.sessions.table.lock().leases.keys().map(|(ino, _)| *ino).collect();
            inos.into_iter().for_each(|ino| self.fold_times(Ino(ino)));
        }
    }

    /// Stores the `noted` times to the inode, under its lock. The caller has passed the gate.
    pub(crate) fn keep_times(&self, stripe: &Stripe, ino: Ino, noted: &[NotedTimes]) {
        let latest = |of: fn(&NotedTimes) -> u64| noted.iter().map(of).max().unwrap_or(0);
        let latest = NotedTimes { written: latest(|noted| noted.written), accessed: latest(|noted| noted.accessed) };
        if let Ok(mut inode) = self.load_regular(ino) {
            stripe.apply_waiting(&mut inode);
            latest.apply(&mut inode, self.now());
            // A time that cannot be stored is not an error of the caller.
            let _ = size::store_size(self, stripe, &mut inode);
        }
    }
}
