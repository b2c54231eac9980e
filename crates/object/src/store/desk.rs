//! What a store's owner does for other processes: it lends them objects.

use std::sync::{Arc, Weak};

use ferrite_owner::lease::answer;
use ferrite_owner::{Call, Handler, Parted, Reply};
use ferrite_pool::Pool;

/// Answers tenants. It does not keep the pool.
pub(super) struct Desk {
    pool: Weak<Pool>,
    boot_id: [u8; 16],
}

impl Desk {
    pub fn new(pool: &Arc<Pool>, boot_id: [u8; 16]) -> Self {
        Self { pool: Arc::downgrade(pool), boot_id }
    }
}

impl Handler for Desk {
    fn call(&self, call: Call<'_>) -> Result<Reply, String> {
        let pool = self.pool.upgrade().ok_or("the store is being closed: try again")?;
        let request = serde_json::from_value(call.request).map_err(|_| {
            format!("process {} owns the pool for its objects and does nothing else: end it first", std::process::id())
        })?;
        answer(&pool, self.boot_id, call.caller, request).map_err(|error| error.to_string())
    }

    fn gone(&self, parted: &Parted<'_>) {
        if let Some(pool) = self.pool.upgrade() {
            // What cannot be ended now is found by the next one, and at the next opening.
            let _ = parted.reap(&pool);
        }
    }
}
