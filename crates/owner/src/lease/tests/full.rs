//! A pool without room.

use std::sync::Weak;

use ferrite_pool::{Freeze, NewTag, Result, SpaceNeed, Tag, Zone};

use super::*;

/// A service that needs the tag `hoard` no more.
struct Hoard(Weak<Pool>);

impl Freeze for Hoard {
    fn freeze(&self) {}

    fn thaw(&self) {}

    fn spare(&self) -> bool {
        let pool = self.0.upgrade().expect("it is asked by it");
        pool.tag("hoard").is_ok_and(|tag| pool.remove_tag(&tag).is_ok())
    }
}

fn take(pool: &Pool, name: &str, zone: Zone) -> Result<Arc<Tag>> {
    let needs = [SpaceNeed { role: Role::DATA, zone, bytes: PAGE }];
    let new = NewTag { name, kind: TagKind::BYTES, size: 0, attributes: [0; 64], needs: &needs };
    pool.create_tag(&new, |_| Ok(()))
}

/// The grant of a tag in many pieces needs a page for the list of them, and a tag is taken in hand also to be emptied.
#[test]
fn a_tag_in_pieces_is_lent_by_a_full_pool_that_services_have_space_of() {
    let owner = Owner::new();
    let (pool, tenant) = (&owner.pool, owner.tenant());
    tenant.create(&spec("a", false)).unwrap();
    for pages in 5..=8 {
        take(pool, &format!("between {pages}"), Zone::Normal).unwrap();
        tenant.hold("a").unwrap().widen(&[RoleSpace { role: Role::DATA, bytes: pages * PAGE }]).unwrap();
    }
    take(pool, "hoard", Zone::Normal).unwrap();
    for zone in [Zone::Super, Zone::Normal] {
        (0..).take_while(|number| take(pool, &format!("{zone:?} {number}"), zone).is_ok()).for_each(drop);
    }
    assert_eq!(kind_of(tenant.hold("a")), FailureKind::Full);
    let hoard: Arc<dyn Freeze> = Arc::new(Hoard(Arc::downgrade(pool)));
    pool.register_freezer(Arc::downgrade(&hoard));
    let held = tenant.hold("a").unwrap();
    assert_eq!(held.stream(Role::DATA).len(), 8 * PAGE);
    assert!(pool.tag("hoard").is_err() && pool.usage().free_bytes == 0);
    account(pool);
    drop(held);
    assert_eq!(pool.usage().free_bytes, PAGE);
}
