//! A file system that PostgreSQL's own user serves. Under `ferrite run`, only the user that serves a pool, and root, store
//! into it directly.
//!
//! The file system is mounted in a mount namespace of its own, in which that user may open `/dev/fuse`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ferrite::OwnerProcess;
use crate::loads::{USER, as_user};
use crate::options::BenchOptions;
use crate::pool_tree::{OpenPool, PoolTree};
use crate::scratch::Scratch;
use crate::{Error, Result, program};

/// Enters the namespace. Copies of other mounts would keep those busy, so they are unmounted there.
const ENTER: &str = r#"
awk '$3 == "fuse.ferrite" || index($2, "/run/ferrite-bench/") == 1 { print $2 }' /proc/mounts | xargs -r -n1 umount -l
mount -t tmpfs -o mode=755 none "$0/dev"
mknod -m 666 "$0/dev/fuse" c 10 229
mount --bind "$0/dev/fuse" /dev/fuse
exec "$@"
"#;

/// A file system that PostgreSQL's user serves. Dropped, it is unmounted.
pub struct UserMount {
    // The owner ends before its folder goes.
    owner: OwnerProcess,
    folder: Scratch,
}

impl UserMount {
    /// A file system of `bytes`, served by `ferrite`; `None` if that user cannot mount.
    pub fn new(options: &BenchOptions, ferrite: &Path, bytes: u64) -> Result<Option<Self>> {
        if ["unshare", "nsenter", "fusermount3"].iter().any(|name| program::find(name).is_none()) {
            return Ok(None);
        }
        let folder = Scratch::new(&options.place)?;
        let open_pool = OpenPool::new(&options.place, bytes)?;
        PoolTree::of_small_files(&open_pool, "run").make()?;
        let pool = open_pool.close()?;
        folder.folder("dev")?;
        folder.folder("mount")?;
        // The user may have no way to the program's own folder.
        let own = folder.path("ferrite");
        fs::copy(ferrite, &own).map_err(Error::io(format!("making {}", own.display())))?;
        let pools = pool.path().parent().map(Path::to_owned).unwrap_or_default();
        program::run(Command::new("chown").arg("-R").arg(format!("{USER}:")).arg(folder.path("")).arg(pools))?;
        let mut by = Command::new("unshare");
        by.args(["--mount", "--propagation", "private", "sh", "-ec", ENTER]).arg(folder.path(""));
        let as_user = as_user(&own);
        by.arg(as_user.get_program()).args(as_user.get_args()).current_dir("/");
        let owner = OwnerProcess::start(by, &own, pool, "run", &folder.path("mount"))?;
        Ok(owner.map(|owner| Self { owner, folder }))
    }

    /// The file system's first folder.
    pub fn home(&self) -> PathBuf {
        self.folder.path("mount")
    }

    /// A command that runs the program added to it, as that user and in the namespace.
    pub fn command(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.owner.id())).arg("--");
        let user = as_user(Path::new("env"));
        command.arg(user.get_program()).args(user.get_args());
        // `ferrite run` puts its library there.
        command.arg(format!("HOME={}", self.folder.path("").display()));
        command
    }

    /// A command like [`UserMount::command`] that runs the program under `ferrite run`.
    pub fn run(&self) -> Command {
        let mut command = self.command();
        command.arg(self.folder.path("ferrite")).args(["run", "--"]);
        command
    }
}
