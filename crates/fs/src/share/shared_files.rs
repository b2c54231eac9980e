//! A file system and the clients that share it.

use std::ops::Deref;
use std::sync::{Arc, Weak};

use ferrite_pool::{Freeze, Pool};

use crate::file::Files;
use crate::share::client_link::ClientLink;
use crate::share::sessions::Desk;
use crate::store::Store;
use crate::store::clients::Clients;
use crate::store::reclaim::SpaceMaker;
use crate::tree::{Tree, lost_found};
use crate::{FsOptions, Result};

/// Files under their names, and the clients that work on them from other processes.
pub struct SharedFiles {
    tree: Tree,
    pub(crate) link: Arc<ClientLink>,
    pub(crate) sessions: Desk,
}

impl SharedFiles {
    /// See [`crate::FileSystem::open`].
    pub(crate) fn open(pool: Arc<Pool>, name: &str, options: FsOptions) -> Result<Arc<Self>> {
        let (is_read_only, mut link) = (options.read_only, None);
        let store = Store::open(pool, name, options, |board| {
            let new = Arc::new(ClientLink::new(board));
            link = Some(Arc::clone(&new));
            new as Arc<dyn Clients>
        })?;
        let link = link.expect("a store that is open has asked for it");
        let shared = Arc::new(Self { tree: Tree::new(Files::new(store)), link, sessions: Desk::default() });
        shared.link.connect(&shared);
        let maker: Weak<dyn SpaceMaker> = Arc::downgrade(&shared) as Weak<dyn SpaceMaker>;
        _ = shared.space_maker.set(maker);
        if !is_read_only {
            shared.bar_forerunners()?;
            shared.find_unlisted()?;
            lost_found::rescue_lost(&shared)?;
        }
        let service: Arc<dyn Freeze> = shared.clone();
        shared.pool().register_freezer(Arc::downgrade(&service) as Weak<dyn Freeze>);
        Ok(shared)
    }
}

impl Deref for SharedFiles {
    type Target = Tree;

    #[inline(always)]
    fn deref(&self) -> &Tree {
        &self.tree
    }
}
