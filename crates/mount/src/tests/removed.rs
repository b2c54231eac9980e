//! The space of removed files.

use std::thread;
use std::time::Duration;

use ferrite_memory::planted::plant_in_process_with;

use super::{Bug, assert_guarded};

/// FW5 of the file system: the kernel releases a removed file after `rm` has ended, here 200 ms later, and the next file
/// gets its space.
#[test]
fn fw5_a_file_gets_the_space_of_one_that_was_just_removed() {
    assert_guarded(Bug::RemovedLost, |world| {
        let _late = plant_in_process_with("mount: forget", || {
            thread::sleep(Duration::from_millis(200));
            false
        });
        let script = "for i in 1 2 3; do dd if=/dev/zero of=f bs=64k 2>/dev/null; stat -c %s f; rm f; done";
        let said = world.sh(script).stdout;
        let sizes =
            String::from_utf8_lossy(&said).lines().map(|size| size.parse().expect("a size")).collect::<Vec<u64>>();
        assert!(sizes.len() == 3 && sizes[0] > 8 << 20, "{sizes:?}");
        sizes.iter().all(|size| size.abs_diff(sizes[0]) < 1 << 20)
    });
}
