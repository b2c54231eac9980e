//! untar: a source tree is unpacked from an archive on the same disk.

use std::path::Path;

use super::source::Source;
use super::{Kit, Load, Made, has, timed};
use crate::{Result, program};

struct Untar {
    source: Source,
}

/// It, where there is a source tree.
pub fn make(kit: &Kit) -> Made {
    let source = if has(&["tar"]) { kit.source()?.cloned() } else { None };
    Ok(source.map(|source| Box::new(Untar { source }) as Box<dyn Load>))
}

impl Load for Untar {
    fn prepare(&self, home: &Path) -> Result<()> {
        self.source.copy_to(home)
    }

    fn run(&self, home: &Path) -> Result<f64> {
        timed(home, || program::shell(home, "mkdir $home/tree; tar -xf $home/source.tar -C $home/tree"))
    }

    fn reset(&self, home: &Path) -> Result<()> {
        program::shell(home, "rm -r $home/tree")
    }
}
