//! PostgreSQL as a user has it: its cluster is made once, in memory, and copied to each disk that is measured.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::Size;
use crate::scratch::Scratch;
use crate::{Error, Result, program};

/// PostgreSQL's own user: it refuses to be run by root.
pub(crate) const USER: &str = "postgres";
/// How long it may take to start.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);
/// Little memory of its own, so that its disk is what is measured; and nothing in the background.
const SETTINGS: [&str; 8] = [
    "listen_addresses=",
    "shared_buffers=16MB",
    "fsync=on",
    "autovacuum=off",
    "jit=off",
    "max_parallel_workers_per_gather=0",
    "max_wal_size=96MB",
    "min_wal_size=32MB",
];

/// A cluster with the tables of tpcc and tpch.
#[derive(Clone, Debug)]
pub struct Cluster {
    template: PathBuf,
    sockets: PathBuf,
}

/// A server that answers. Dropped, it is stopped.
pub struct Server<'a> {
    cluster: &'a Cluster,
    child: Child,
}

impl Cluster {
    /// Makes it; `None` where PostgreSQL is not installed.
    pub fn make(scratch: &Scratch, size: &Size) -> Result<Option<Self>> {
        if !super::has(&["initdb", "postgres", "pgbench", "psql", "setpriv"]) || !has_user() {
            return Ok(None);
        }
        let cluster = Self { template: scratch.path("cluster"), sockets: scratch.path("sockets") };
        for folder in [&cluster.template, &cluster.sockets] {
            fs::create_dir(folder).map_err(Error::io(format!("making {}", folder.display())))?;
            program::run(Command::new("chown").arg(format!("{USER}:")).arg(folder))?;
        }
        let mut init = as_user(&program::find("initdb").unwrap_or_default());
        init.args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--no-locale", "--username=postgres", "-D"]);
        program::run(init.arg(&cluster.template))?;
        let server = cluster.start(as_server(), &cluster.template)?;
        program::run(server.client("pgbench").args(["-i", "-q", "-n", "-s", &size.branches.to_string(), USER]))?;
        let orders = format!("orders={}", size.orders);
        server.sql(&orders, include_str!("tpch/tables.sql"))?;
        drop(server);
        Ok(Some(cluster))
    }

    /// Copies it to `home`.
    pub fn copy_to(&self, home: &Path) -> Result<()> {
        self.copy_by(Command::new("env"), home)
    }

    /// Copies it to `home` as `by` runs programs.
    pub fn copy_by(&self, mut by: Command, home: &Path) -> Result<()> {
        program::run(by.args(["cp", "-a"]).arg(&self.template).arg(home.join("cluster")))
    }

    /// Starts the server of the copy in `home`.
    pub fn start_in(&self, home: &Path) -> Result<Server<'_>> {
        self.start_by(as_server(), home)
    }

    /// Starts the server of the copy in `home` as `by` runs programs: itself, by its own user.
    pub fn start_by(&self, by: Command, home: &Path) -> Result<Server<'_>> {
        self.start(by, &home.join("cluster"))
    }

    fn start(&self, by: Command, data: &Path) -> Result<Server<'_>> {
        let mut command = by;
        command.arg(program::find("postgres").unwrap_or_default());
        command.arg("-D").arg(data).args(SETTINGS.iter().flat_map(|setting| ["-c", setting]));
        command.arg("-c").arg(format!("unix_socket_directories={}", self.sockets.display()));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.map_err(Error::io("starting postgres"))?;
        let mut server = Server { cluster: self, child };
        server.wait_until_ready(data)?;
        Ok(server)
    }
}

impl Server<'_> {
    /// The client program `name`, told where the server is.
    pub fn client(&self, name: &str) -> Command {
        let mut command = Command::new(program::find(name).unwrap_or_default());
        command.env("PGHOST", &self.cluster.sockets).env("PGUSER", USER).env("PGDATABASE", USER);
        command
    }

    /// Has `statements` executed, with the variable `variable`.
    pub fn sql(&self, variable: &str, statements: &str) -> Result<()> {
        let mut psql = self.client("psql");
        psql.args(["-q", "-X", "-o", "/dev/null", "-v", "ON_ERROR_STOP=1", "-v", variable, "-f"]);
        let file = self.cluster.sockets.join("statements.sql");
        fs::write(&file, statements).map_err(Error::io(format!("writing {}", file.display())))?;
        program::run(psql.arg(file))
    }

    fn wait_until_ready(&mut self, data: &Path) -> Result<()> {
        let start = Instant::now();
        loop {
            if program::run(self.client("psql").args(["-X", "-q", "-c", "select 1"])).is_ok() {
                return Ok(());
            }
            let has_ended = self.child.try_wait().is_ok_and(|status| status.is_some());
            if has_ended || start.elapsed() > PATIENCE {
                let what = format!("its server for {} does not start", data.display());
                return Err(Error::Server { who: "postgres".into(), what });
            }
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        // Its fast shutdown.
        let _ = program::run(Command::new("kill").args(["-INT", &self.child.id().to_string()]));
        let until = Instant::now() + PATIENCE;
        while self.child.try_wait().is_ok_and(|status| status.is_none()) && Instant::now() < until {
            std::thread::sleep(POLL);
        }
        // It leaves what it wrote to its recovery. Who has ended already is only waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn has_user() -> bool {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    users.lines().any(|line| line.split(':').next() == Some(USER))
}

fn user() -> [String; 3] {
    [format!("--reuid={USER}"), format!("--regid={USER}"), "--clear-groups".into()]
}

/// What runs the program that is added to it as PostgreSQL's user. A server whose experiment was killed must not hold
/// the disk, so it is told to end with us.
fn as_server() -> Command {
    let mut command = Command::new("setpriv");
    command.args(user()).args(["--pdeathsig", "QUIT", "--"]).current_dir("/");
    command
}

/// `program`, run as PostgreSQL's user.
pub(crate) fn as_user(program: &Path) -> Command {
    let mut command = as_server();
    command.arg(program);
    command
}
