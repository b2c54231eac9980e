//! Programs under `ferrite run` that start as root and change to a user without access to the pool.

use crate::direct::{counted, python, run_directly};
use crate::mount::{Place, start};
use crate::server::{Server, assert_sound};

const RIGHTS: &str = include_str!("direct/rights.py");

fn served(place: &Place) -> Server {
    let server = start(&place.pool, &place.at, &["--size", "128M", "--disk", "d=8M", "--allow-other"]);
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&place.at, all).expect("its owner may");
    let folder = place.pool.parent().expect("in a folder");
    std::fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("its owner may");
    server
}

/// LD9, FG10: a program that gives up root's rights loses its access to the pool, also with threads in the middle of a
/// copy. Open files are read and written correctly, through the kernel.
#[test]
fn who_gives_up_the_rights_of_root_has_nothing_of_the_pool_any_more() {
    let Some(place) = Place::new() else { return };
    let server = served(&place);
    for how in ["one", "real", "all", "number", "threads"] {
        let (message, counts) = counted(python(RIGHTS, &place.at).arg(&place.pool).arg(how));
        let had: Vec<&str> = message.lines().next().expect("a line").split_whitespace().collect();
        assert!(had.len() > 4, "{how}: there is something to give up: {message}");
        assert!(message.ends_with("after []\nlate []\n"), "LD9: {how}: {message}");
        assert!(counts["direct"]["calls"].as_u64() > Some(150), "{how}: {counts}");
        assert!(counts["mount"]["calls"].as_u64() > Some(250), "{how}: {counts}");
    }
    server.interrupt();
    assert_sound(&place.pool);
}

/// LD9: this canary finds the access that remains if the library does not notice the change. Here the library cannot
/// notice it.
#[test]
fn canary_what_is_left_of_the_pool_is_found() {
    let Some(place) = Place::new() else { return };
    let server = served(&place);
    let message = run_directly(python(RIGHTS, &place.at).arg(&place.pool).arg("unseen"));
    let after = message.lines().last().expect("a line");
    assert!(after.starts_with("user (65534, 65534, 65534) after"), "{message}");
    let kinds = ["ferrite-words", "the pool", "a connection", "shared words"];
    assert!(kinds.iter().all(|kind| after.contains(kind)), "{message}");
    server.interrupt();
    assert_sound(&place.pool);
}

/// LD9: a program stays direct if it can become root again, if it keeps its user, or if only its child changes.
#[test]
fn who_gives_nothing_up_goes_on_directly() {
    let Some(place) = Place::new() else { return };
    let server = served(&place);
    for how in ["kept", "child"] {
        let (message, counts) = counted(python(RIGHTS, &place.at).arg(&place.pool).arg(how));
        assert!(message.ends_with("after True\n"), "LD9: {how}: {message}");
        // The kernel keeps the offset of an inherited descriptor.
        assert!(counts["direct"]["calls"].as_u64() > Some(350), "{how}: {counts}");
        assert!(counts["mount"]["calls"].as_u64() < Some(150), "{how}: {counts}");
    }
    server.interrupt();
    assert_sound(&place.pool);
}
