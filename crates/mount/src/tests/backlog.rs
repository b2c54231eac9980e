//! The limit of written data that the kernel holds for a mount.

use std::fs;
use std::path::Path;

use ferrite_fs::DataMode;

use super::World;

/// Returns the limits of a new mount: its percentage of all held data, whether the kernel enforces that while there is
/// room, and whether this machine allows a change.
fn limits(cached: bool) -> Option<([Option<String>; 2], bool)> {
    let world = World::mounted(None, DataMode::Sync, cached)?;
    let said = world.sh("mountpoint -d .");
    let device = String::from_utf8(said.stdout).expect("numbers");
    let folder = Path::new("/sys/class/bdi").join(device.trim());
    let read = |name| fs::read_to_string(folder.join(name)).ok().map(|text: String| text.trim().to_owned());
    let message = ["max_ratio", "strict_limit"].map(read);
    let may_change = fs::write(folder.join("max_ratio"), "100").is_ok();
    Some((message, may_change))
}

/// Programs that write much through `--cached` would else wait for the server.
#[test]
fn a_mount_whose_writes_are_kept_back_has_the_kernels_whole_share() {
    let Some((widened, may_change)) = limits(true) else { return };
    if !may_change {
        println!("skipped: this machine does not let the limits of a mount be changed");
        return;
    }
    let [ratio, strict] = widened;
    assert_eq!(ratio.as_deref(), Some("100"));
    // Kernels before 6.2 do not say.
    assert_eq!(strict.as_deref().unwrap_or("0"), "0");
    let (plain, _) = limits(false).expect("as before");
    assert_ne!(plain[0].as_deref(), Some("100"), "nothing is kept back for another mount");
}
