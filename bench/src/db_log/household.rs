//! A file system that PostgreSQL's own user serves: only who serves a pool, and root, has it directly under `ferrite run`.
//!
//! It is mounted in a mount namespace of its own, in which that user may open `/dev/fuse` whatever this machine allows.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use crate::loads::{USER, as_user};
use crate::options::Options;
use crate::scratch::Scratch;
use crate::tree::{Grove, Shut, Tree};
use crate::{Error, Result, program};

/// Copies of other mounts would keep those from ending.
const ENTER: &str = r#"
awk '$3 == "fuse.ferrite" || index($2, "/run/ferrite-bench/") == 1 { print $2 }' /proc/mounts | xargs -r -n1 umount -l
mount -t tmpfs -o mode=755 none "$0/dev"
mknod -m 666 "$0/dev/fuse" c 10 229
mount --bind "$0/dev/fuse" /dev/fuse
exec "$@"
"#;
const NAME: &str = "run";

/// See the module. Dropped, its server is told to end, and waited for.
pub struct Household {
    server: Child,
    folder: Scratch,
    /// It must find somebody who listens.
    _says: BufReader<ChildStdout>,
    _pool: Arc<Shut>,
}

impl Household {
    /// One of `bytes`, served by `ferrite`; `None` where that user cannot mount.
    pub fn new(options: &Options, ferrite: &Path, bytes: u64) -> Result<Option<Self>> {
        if ["unshare", "nsenter", "fusermount3"].iter().any(|name| program::find(name).is_none()) {
            return Ok(None);
        }
        let folder = Scratch::new(&options.place)?;
        let grove = Grove::new(&options.place, bytes)?;
        Tree { grove: Arc::clone(&grove), name: NAME, cached: false, super_threshold_bytes: None }.make()?;
        let pool = grove.shut()?;
        let failed = Error::io(format!("making {}", folder.path("").display()));
        let made = ["dev", "mount"].iter().try_for_each(|name| fs::create_dir(folder.path(name)));
        // Where that program lies others may have no way to.
        made.and_then(|()| fs::copy(ferrite, folder.path("ferrite"))).map_err(failed)?;
        let pools = pool.path().parent().map(Path::to_owned).unwrap_or_default();
        program::run(Command::new("chown").arg("-R").arg(format!("{USER}:")).arg(folder.path("")).arg(pools))?;
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-ec", ENTER]).arg(folder.path(""));
        let serve = as_user(&folder.path("ferrite"));
        command.arg(serve.get_program()).args(serve.get_args());
        command.args(["fs", "mount", "--json"]).arg(pool.path()).arg(NAME).arg(folder.path("mount"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).current_dir("/");
        let mut server = command.spawn().map_err(Error::io("starting unshare"))?;
        let mut says = BufReader::new(server.stdout.take().expect("piped"));
        let mut line = String::new();
        says.read_line(&mut line).map_err(Error::io("hearing ferrite"))?;
        let household = Self { server, folder, _says: says, _pool: pool };
        // One that has ended is waited for by being dropped.
        Ok((!line.is_empty()).then_some(household))
    }

    /// The file system's first folder.
    pub fn home(&self) -> PathBuf {
        self.folder.path("mount")
    }

    /// What runs the program that is added to it, as that user where the file system is seen.
    pub fn command(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.server.id())).arg("--");
        let user = as_user(Path::new("env"));
        command.arg(user.get_program()).args(user.get_args());
        // Where the library of `ferrite run` goes.
        command.arg(format!("HOME={}", self.folder.path("").display()));
        command
    }

    /// As [`Household::command`], under `ferrite run`.
    pub fn run(&self) -> Command {
        let mut command = self.command();
        command.arg(self.folder.path("ferrite")).args(["run", "--"]);
        command
    }
}

impl Drop for Household {
    fn drop(&mut self) {
        // Who has ended already is only waited for.
        let _ = program::run(Command::new("kill").args(["-INT", &self.server.id().to_string()]));
        let _ = self.server.wait();
    }
}
