//! Pools in huge pages, on a hugetlbfs of the test's own. The kernel gets the pages back afterwards.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::kill;
use crate::programs::client;
use crate::server::{can_attach, folder, json, ok, run};

/// The kernel's count of reserved 2 MiB pages.
const KEPT: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";

/// A mounted hugetlbfs.
struct HugePages {
    folder: TempDir,
    count: u64,
}

fn kept() -> u64 {
    fs::read_to_string(KEPT).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

impl HugePages {
    /// Mounts a hugetlbfs with `count` more pages than the kernel reserved before. Returns `None` if the kernel cannot
    /// allocate them.
    fn mount(count: u64) -> Option<Self> {
        let before = kept();
        let asked = fs::write(KEPT, (before + count).to_string());
        let pages = Self { folder: folder(false), count: kept().saturating_sub(before) };
        if asked.is_err() || pages.count < count {
            println!("skipped: the kernel has no {count} huge pages to give ({})", pages.count);
            return None;
        }
        run(client("mount").args(["-t", "hugetlbfs", "-o", "pagesize=2M", "none"]).arg(pages.path()));
        Some(pages)
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        let _ = client("umount").arg(self.path()).output();
        let _ = fs::write(KEPT, kept().saturating_sub(self.count).to_string());
    }
}

/// A pool on huge pages is made, served, killed and recovered. Ferrite never reports the pool as more durable than it
/// is.
#[test]
fn kill_rounds_on_huge_pages_lose_no_fsynced_file() {
    if !can_attach() {
        return;
    }
    let Some(pages) = HugePages::mount(80) else { return };
    let small = pages.path().join("small");
    let pool = small.to_str().expect("text");
    ok(&["pool", "create", pool, "--size", "32M"]);
    let report = json(&["pool", "info", pool]);
    let says = "hugetlb, survives a process crash; does not survive a kernel crash or power loss: ";
    assert!(report["medium"].as_str().is_some_and(|line| line.starts_with(says)), "{report}");
    ok(&["tag", "put", pool, "self", "/proc/self/status"]);
    fs::remove_file(small).expect("removed");
    kill::kill_rounds_at(pages.path(), "e2e-huge", 3, &[]);
}
