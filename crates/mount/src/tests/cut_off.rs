//! A killed server is cut off, and no living one.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::super::cut_off::{cut_off, cut_off_silent};
use super::World;

fn is_its(source: &Path) -> bool {
    source == Path::new("test")
}

/// A process that waits for no mount, as one that is about to end.
struct Idle(Child);

impl Idle {
    fn start() -> Self {
        Self(Command::new("cat").stdin(Stdio::piped()).spawn().expect("it runs"))
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Also one that is mounted from what has the same name.
#[test]
fn who_waits_for_nothing_cuts_nothing_off() {
    let Some(world) = World::new(None) else { return };
    let idle = Idle::start();
    cut_off(idle.0.id(), is_its).expect("there is nothing to do");
    assert!(world.sh("touch there").status.success(), "a living server was cut off");
}

/// The kernel does not report what the process waits for.
#[test]
fn what_answers_is_not_cut_off() {
    let Some(world) = World::new(None) else { return };
    let nothing = cut_off_silent(is_its).expect_err("it answers").kind();
    assert_eq!(nothing, std::io::ErrorKind::NotFound);
    assert!(world.sh("touch there").status.success(), "a living server was cut off");
}
