//! PostgreSQL with its usual settings: its cluster is made once, in memory, and copied to each disk that is measured.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{AppSize, LoadKit, timed};
use crate::child_process::{ChildProcess, ProcessEnding};
use crate::scratch::Scratch;
use crate::{Error, Result, program};

/// PostgreSQL's own user, because the server refuses to be run by root.
pub(crate) const USER: &str = "postgres";
/// The server has little memory, so that its disk is measured, and no work in the background.
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
pub struct PostgresCluster {
    template: PathBuf,
    sockets: PathBuf,
}

/// A server that answers. Dropped, it is stopped.
pub struct PostgresServer<'a> {
    cluster: &'a PostgresCluster,
    _process: ChildProcess,
}

impl PostgresCluster {
    /// Makes the cluster; returns `None` if PostgreSQL is not installed.
    pub fn make(scratch: &Scratch, size: &AppSize) -> Result<Option<Self>> {
        if !super::has(&["initdb", "postgres", "pgbench", "psql", "setpriv"]) || !has_user() {
            return Ok(None);
        }
        let cluster = Self { template: scratch.path("cluster"), sockets: scratch.path("sockets") };
        for folder in [&cluster.template, &cluster.sockets] {
            fs::create_dir(folder).map_err(Error::io(format!("making {}", folder.display())))?;
            program::run(Command::new("chown").arg(format!("{USER}:")).arg(folder))?;
        }
        let mut init = as_user(program::command("initdb").get_program().as_ref());
        init.args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--no-locale", "--username=postgres", "-D"]);
        program::run(init.arg(&cluster.template))?;
        let server = cluster.start(as_server(), &cluster.template)?;
        program::run(server.client("pgbench").args(["-i", "-q", "-n", "-s", &size.branches.to_string(), USER]))?;
        let orders = format!("orders={}", size.orders);
        server.sql(&orders, include_str!("tpch/tables.sql"))?;
        drop(server);
        Ok(Some(cluster))
    }

    /// Copies the cluster to `home`.
    pub fn copy_to(&self, home: &Path) -> Result<()> {
        self.copy_by(Command::new("env"), home)
    }

    /// Copies the cluster to `home` by a program that `by` runs.
    pub fn copy_by(&self, mut by: Command, home: &Path) -> Result<()> {
        program::run(by.args(["cp", "-a"]).arg(&self.template).arg(home.join("cluster")))
    }

    /// Starts the server of the copy in `home`.
    pub fn start_in(&self, home: &Path) -> Result<PostgresServer<'_>> {
        self.start_by(as_server(), home)
    }

    /// Starts the server of the copy in `home` by `by`, which runs programs as PostgreSQL's user.
    pub fn start_by(&self, by: Command, home: &Path) -> Result<PostgresServer<'_>> {
        self.start(by, &home.join("cluster"))
    }

    fn start(&self, mut by: Command, data: &Path) -> Result<PostgresServer<'_>> {
        by.arg(program::find("postgres").unwrap_or_default());
        by.arg("-D").arg(data).args(SETTINGS.iter().flat_map(|setting| ["-c", setting]));
        by.arg("-c").arg(format!("unix_socket_directories={}", self.sockets.display()));
        // On SIGINT the server shuts down fast.
        let mut ask = self.client("psql");
        ask.args(["-X", "-q", "-c", "select 1"]);
        let is_ready = || Ok(program::run(&mut ask).is_ok().then_some(()));
        let ending = ProcessEnding::Interrupt;
        let process = ChildProcess::start_serving("postgres", by.stderr(Stdio::null()), ending, is_ready)?;
        Ok(PostgresServer { cluster: self, _process: process })
    }

    fn client(&self, name: &str) -> Command {
        let mut command = program::command(name);
        command.env("PGHOST", &self.sockets).env("PGUSER", USER).env("PGDATABASE", USER);
        command
    }
}

impl PostgresServer<'_> {
    /// The command of the client program `name`, with the address of the server.
    pub fn client(&self, name: &str) -> Command {
        self.cluster.client(name)
    }

    /// Executes `statements` with the variable `variable`.
    pub fn sql(&self, variable: &str, statements: &str) -> Result<()> {
        let mut psql = self.client("psql");
        psql.args(["-q", "-X", "-o", "/dev/null", "-v", "ON_ERROR_STOP=1", "-v", variable, "-f"]);
        let file = self.cluster.sockets.join("statements.sql");
        fs::write(&file, statements).map_err(Error::io(format!("writing {}", file.display())))?;
        program::run(psql.arg(file))
    }
}

fn has_user() -> bool {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    users.lines().any(|line| line.split(':').next() == Some(USER))
}

/// A command that runs the program added to it as PostgreSQL's user. The program ends with this process, because a server
/// of a killed experiment must not hold the disk.
fn as_server() -> Command {
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={USER}"), format!("--regid={USER}"), "--clear-groups".into()]);
    command.args(["--pdeathsig", "QUIT", "--"]).current_dir("/");
    command
}

/// `program`, run as PostgreSQL's user.
pub(crate) fn as_user(program: &Path) -> Command {
    let mut command = as_server();
    command.arg(program);
    command
}

/// Transactions whose time tpcc reports; the paper reports the time of a million.
const TRANSACTIONS: f64 = 10_000.0;

/// Runs tpcc: small transactions, each durable when it is answered; by pgbench's TPC-B, because TPC-C's own programs are
/// not free.
pub fn tpcc(kit: &LoadKit, home: &Path) -> Result<f64> {
    let Some(cluster) = kit.cluster()? else { return Err(program::strange("postgres", "it is not installed")) };
    let server = cluster.start_in(home)?;
    let seconds = kit.size.seconds.to_string();
    let output = program::output(server.client("pgbench").args(["-n", "-c", "8", "-j", "2", "-T", &seconds]))?;
    let rate = transactions_per_s(&output).filter(|rate| *rate > 0.0);
    Ok(TRANSACTIONS / rate.ok_or_else(|| program::strange("pgbench", &output))?)
}

/// The rate that pgbench prints.
pub fn transactions_per_s(output: &str) -> Option<f64> {
    output.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok())
}

/// Runs tpch: queries after five of TPC-H's, which read whole tables like its.
pub fn tpch(kit: &LoadKit, home: &Path) -> Result<f64> {
    let Some(cluster) = kit.cluster()? else { return Err(program::strange("postgres", "it is not installed")) };
    let server = cluster.start_in(home)?;
    timed(home, || server.sql("orders=0", include_str!("tpch/queries.sql")))
}
