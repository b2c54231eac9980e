//! `ferrite guest attach`, and the end of it.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use ferrite_daemon::disks::{DiskRequest, FileReport, FileSpec};
use ferrite_guest::{GuestReport, GuestRequest};
use ferrite_owner::paths::{in_line, quoted};

use super::GuestName;
use super::guest_arguments::named_guest;
use crate::command_pool::CommandPool;
use crate::commands::print_line;
use crate::host::absolute;
use crate::medium::MediumArguments;
use crate::outcome::{Failure, Outcome, and_then_cleared};
use crate::pool_argument::InPool;
use crate::size;
use crate::stop::{self, Stop};

/// Make a guest a file for the virtio-pmem of a virtual machine, until `detach` or the end of the pool's owner
///
/// One program maps the file, shared. Its stores are in the kernel's page cache until fsync or msync: these return when
/// the bytes are durable, as far as the pool is. Where no process owns the pool this command does, and runs until
/// Ctrl-C or until nothing of the pool is used.
#[derive(Args)]
pub struct GuestAttach {
    #[command(flatten)]
    guest: InPool<GuestName>,
    /// The file, which is made if it is missing [default: one below /run/ferrite that only root reaches]
    #[arg(long, value_name = "FILE")]
    path: Option<PathBuf>,
    /// The user that may open the file beside root, by name or number [default: root]
    #[arg(long, value_name = "USER", requires = "path")]
    owner: Option<String>,
    /// Print JSON: one line, when it is attached
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    medium: MediumArguments,
}

impl GuestAttach {
    /// Attaches the guest, and serves it if this process owns the pool.
    pub fn run(self) -> Outcome {
        let stop = Stop::new()?;
        self.medium.check()?;
        if self.medium.is_buffered() {
            return Err(Failure::Usage("--guard buffered is for disks: a guest keeps nothing back".into()));
        }
        let spec = self.spec()?;
        let pool = self.guest.pool.path()?;
        let mut command_pool = CommandPool::with(&pool, &self.medium)?;
        let begun = self.begin(&pool, &mut command_pool, spec);
        command_pool.hold_while_used(begun, &stop)
    }

    fn spec(&self) -> Outcome<FileSpec> {
        let path = self.path.as_deref().map(absolute).transpose()?.unwrap_or_default();
        let Some(owner) = &self.owner else { return Ok(FileSpec { path, ..FileSpec::default() }) };
        Ok(FileSpec { path, uid: number_of(owner, "-u")?, gid: number_of(owner, "-g")? })
    }

    fn begin(&self, pool: &Path, command_pool: &mut CommandPool, spec: FileSpec) -> Outcome {
        let name = &self.guest.words.name;
        named_guest(command_pool.ask(GuestRequest::List, None)?, name)?;
        command_pool.listen()?;
        let attached: FileReport = command_pool.ask(DiskRequest::AttachFile { name: name.clone(), spec }, None)?;
        print_line(self.json, &attached, |attached| show(pool, name, attached))?;
        remark!(
            "stores that no fsync or msync has made durable are in the kernel's page cache, in as much memory as the \
             machine's program may have: a failure loses them"
        );
        Ok(())
    }
}

fn show(pool: &Path, name: &str, attached: &FileReport) -> String {
    let notes: String = attached.notes.iter().map(|note| format!("note: {note}\n")).collect();
    let (path, bytes) = (in_line(&attached.path), size::show(attached.size));
    let (pool, quoted_name) = (quoted(pool), quoted(name.as_ref()));
    format!(
        "{name} is {path} ({bytes})\n  `ferrite guest arguments {pool} {quoted_name} --for qemu-pmem` prints QEMU's \
         arguments for it\n{notes}"
    )
}

/// Removes the file of the guest called `name` if it has one, flushes the guest, and closes it.
pub fn detach(pool: &Path, name: String) -> Outcome<GuestReport> {
    stop::watch()?;
    let mut command_pool = CommandPool::new(pool)?;
    let removed: Outcome<bool> = command_pool.ask(DiskRequest::DetachFile { name: name.clone() }, None);
    let detached = removed.and_then(|_| command_pool.ask(GuestRequest::Detach { name }, None));
    and_then_cleared(detached, command_pool.close())
}

/// Returns a number of the user called `user`: of the user by `-u`, of its group by `-g`. The program `id` knows users
/// that are in no file.
fn number_of(user: &str, which: &str) -> Outcome<u32> {
    let asked = Command::new("id").args([which, "--", user]).output();
    let asked = asked.map_err(|error| format!("running id, to find the user {user:?}: {error}"))?;
    let number = String::from_utf8_lossy(&asked.stdout).trim().parse().ok().filter(|_| asked.status.success());
    number.ok_or_else(|| format!("there is no user {user:?}: --owner takes a name or a number of `id`").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_numbers_and_a_name_without_a_user_is_refused() {
        assert_eq!((number_of("root", "-u").ok(), number_of("0", "-g").ok()), (Some(0), Some(0)));
        let refused = number_of("-u", "-u").expect_err("no user has this name");
        assert!(refused.text().contains("--owner"), "{}", refused.text());
    }

    #[test]
    fn an_attached_guest_is_shown_with_the_next_command() {
        let attached = FileReport { path: "/tmp/g".into(), size: 2 << 20, notes: vec!["slow".into()] };
        let text = show(Path::new("/dev/shm/my pool"), "g", &attached);
        for part in ["g is /tmp/g (2 MiB)\n", "arguments '/dev/shm/my pool' g --for qemu-pmem`", "note: slow\n"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
