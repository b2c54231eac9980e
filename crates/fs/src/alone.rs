//! A file system that has a memory for itself.

use std::sync::Arc;

use ferrite_memory::Memory;
use ferrite_pool::{Format, Pool};

use crate::{FileSystem, FsOptions, FsSpec, Result};

/// Its name in its pool.
const NAME: &str = "files";

impl FileSystem {
    /// Makes a pool in `memory` with one empty file system in it, and opens that: for programs that want files for as
    /// long as they run. What `memory` held is lost.
    ///
    /// # Errors
    /// [`ferrite_pool::Error::Limit`] where `memory` is too small for a pool, [`crate::Error::NoSpace`] where it is for
    /// a file system in that.
    pub fn alone(memory: Arc<dyn Memory>, spec: &FsSpec, options: FsOptions) -> Result<Arc<Self>> {
        let (uuid, boot_id) = ((u128::from(spec.hash_seed) + 1).to_le_bytes(), [1; 16]);
        Pool::create(&*memory, &Format { uuid, boot_id })?;
        let pool = Arc::new(Pool::open(memory, boot_id)?.0);
        Self::create(&pool, NAME, spec)?;
        Self::open(pool, NAME, options)
    }
}
