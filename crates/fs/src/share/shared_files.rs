//! A file system and the clients that share it.

use std::ops::Deref;
use std::sync::{Arc, Weak};

use ferrite_pool::{Freeze, Pool, StorePass};

use crate::file::FileLayer;
use crate::share::client_link::ClientLink;
use crate::share::sessions::Sessions;
use crate::store::ChunkStore;
use crate::store::clients::Clients;
use crate::store::reclaim::SpaceMaker;
use crate::store::tier_members::TierOpening;
use crate::tier::TierWork;
use crate::tree::{TreeLayer, lost_found};
use crate::{FsOptions, Result};

/// Files under their names, and the clients that work on them from other processes.
pub struct SharedFiles {
    tree: TreeLayer,
    pub(crate) link: Arc<ClientLink>,
    pub(crate) sessions: Sessions,
    pub(crate) tier: TierWork,
}

impl SharedFiles {
    /// See [`crate::FileSystem::open`].
    pub(crate) fn open(
        pool: Arc<Pool>,
        name: &str,
        options: FsOptions,
        tier_opening: &TierOpening<'_>,
    ) -> Result<Arc<Self>> {
        let _pass = StorePass::of(&pool);
        let (is_read_only, mut link) = (options.read_only, None);
        let store = ChunkStore::open(pool, name, options, tier_opening, |shared_state| {
            let new = Arc::new(ClientLink::new(shared_state));
            link = Some(Arc::clone(&new));
            new as Arc<dyn Clients>
        })?;
        let link = link.expect("a store that is open has asked for it");
        let shared = Arc::new(Self {
            tree: TreeLayer::new(FileLayer::new(store)),
            link,
            sessions: Sessions::default(),
            tier: TierWork::default(),
        });
        shared.link.connect(&shared);
        let maker: Weak<dyn SpaceMaker> = Arc::downgrade(&shared) as Weak<dyn SpaceMaker>;
        _ = shared.space_maker.set(maker);
        if !is_read_only {
            shared.bar_orphaned_clients()?;
            shared.find_unlisted()?;
            lost_found::rescue_lost(&shared)?;
        }
        let service: Arc<dyn Freeze> = shared.clone();
        shared.pool().register_freezer(Arc::downgrade(&service) as Weak<dyn Freeze>);
        Ok(shared)
    }
}

impl Deref for SharedFiles {
    type Target = TreeLayer;

    #[inline(always)]
    fn deref(&self) -> &TreeLayer {
        &self.tree
    }
}
