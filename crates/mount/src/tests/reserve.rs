//! What other users leave to root (MR1).

use super::{Bug, assert_guarded};

const BY: &str = "setpriv --reuid 12345 --regid 12345 --clear-groups";

/// Another user fills the file system up to the reserve, and keeps what is not new space: to overwrite, to cut, to remove.
#[test]
fn mr1_the_reserve_is_roots() {
    assert_guarded(Bug::ReserveTaken, |world| {
        let fill = world.sh(&format!("chmod 777 . && {BY} dd if=/dev/zero of=fill bs=64k 2>&1"));
        assert!(String::from_utf8_lossy(&fill.stdout).contains("No space left"), "{fill:?}");
        let all = world.fs.statfs();
        let is_left = all.free_bytes >= all.total_bytes / 10;
        // Neither a file, nor a link, nor an attribute.
        let new =
            [": > new", "ln -s a link", "mkdir folder", "setfattr -n user.a -v 1 fill", "fallocate -l 64K -o 60M fill"];
        let refused = new.iter().filter(|new| !world.sh(&format!("{BY} sh -c '{new}'")).status.success()).count();
        let over = world.sh(&format!("{BY} dd if=/dev/urandom of=fill bs=64k count=4 conv=notrunc"));
        let shown = world.sh("stat -f -c '%a %f' .");
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        let [available, free] = [0, 1].map(|n| shown.split_whitespace().nth(n).and_then(|it| it.parse::<u64>().ok()));
        let roots = world.sh("dd if=/dev/zero of=roots bs=64k count=16");
        let gone = world.sh(&format!("{BY} truncate -s 1M fill && {BY} rm fill && {BY} sh -c ': > new'"));
        let are_done = [&over, &roots, &gone].iter().all(|done| done.status.success());
        is_left && refused == new.len() && available < free && are_done
    });
}
