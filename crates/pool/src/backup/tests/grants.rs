//! What a restored pool has of the original's clients.

use ferrite_crash::{ExploreOptions, Points, explore};

use super::*;
use crate::Caller;
use crate::PidFd;
use crate::grant::GrantRequest;
use crate::grant::GrantRights;
use crate::grant::Process;
use crate::grant::ensure_no_clients;

/// The image of a pool beside a client, this process, that lives on: it has a grant on one tag, and one with many
/// pieces on another.
fn granted() -> (Arc<LyingMemory>, Pool, Vec<u8>) {
    let (memory, pool) = make(POOL_BYTES_MIN);
    let caller =
        Caller { pid: std::process::id(), uid: 0, process: PidFd::open(std::process::id()).unwrap(), connection: 0 };
    let process = Process::of(&caller, BOOT);
    let need = SpaceNeed { role: Role::DATA, zone: Zone::Normal, bytes: PAGE };
    let lend = |name: &str, every: usize| {
        let needs = vec![need; 21];
        let new = NewTag { name, kind: TagKind(77), size: 16, attributes: [0; 64], needs: &needs };
        let tag = pool.create_tag(&new, |_| Ok(())).unwrap();
        let pages = tag
            .extents
            .iter()
            .flat_map(|all| (all.page..all.end()).map(|page| crate::Extent { page, pages: 1, ..*all }));
        let extents: Vec<_> = pages.step_by(every).collect();
        let ask = GrantRequest { tag: &tag, extents: &extents, rights: GrantRights::Read, process: &process };
        pool.grant(&ask).unwrap();
    };
    lend("whole", 1);
    lend("pieces", 2);
    put(&pool, "value", b"some bytes");
    let image = image_of(&pool);
    (memory, pool, image)
}

/// BK6: the copy holds no page for a client, and pages that its grants took for themselves are free in it.
#[test]
fn bk6_a_restored_pool_has_no_clients() {
    let (original, pool, image) = granted();
    let memory = blank(POOL_BYTES_MIN);
    restored(&image, &memory, false).unwrap();
    ensure_sound(&memory);
    let [copy, original]: [Arc<dyn Memory>; 2] = [memory.clone(), original];
    assert!(matches!(ensure_no_clients(&original, BOOT), Err(Error::Busy(_))));
    ensure_no_clients(&copy, BOOT).unwrap();

    let back = open(&memory);
    assert_eq!((pool.grants().standing().len(), back.grants().standing()), (2, vec![]));
    for name in ["whole", "pieces"] {
        back.remove_tag(&back.tag(name).unwrap()).unwrap();
    }
    let (_, plain) = make(POOL_BYTES_MIN);
    put(&plain, "value", b"some bytes");
    assert_eq!(back.usage().free_bytes, plain.usage().free_bytes);
    drop(back);
    ensure_sound(&memory);
}

/// BK6: also after a crash in the restore.
#[test]
fn bk6_no_crash_brings_a_client_with_the_pool() {
    let (_, _, image) = granted();
    let memory = LyingMemory::new(POOL_BYTES_MIN, Model::MAPPED);
    restore(&mut &image[..], &memory, RestoreOptions::default(), &mut quiet).unwrap();
    let options = ExploreOptions {
        points: Points::Widest,
        images_per_point_max: 64,
        samples_per_point: 80,
        ..ExploreOptions::default()
    };
    let report = explore(&memory, &options, |crash| {
        let memory = Arc::new(crash.memory());
        memory.keep_trace(false);
        match Pool::open(memory, BOOT) {
            Ok((pool, _)) if pool.grants().standing().is_empty() && get(&pool, "value") == b"some bytes" => Ok(()),
            Ok((pool, _)) => Err(format!("it opens with {:?}", pool.grants().standing())),
            Err(_) => Ok(()),
        }
    });
    assert!(report.assert_clean().images > 100, "{report}");
}
