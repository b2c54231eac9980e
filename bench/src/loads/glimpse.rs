//! glimpseindex: a text index of a source tree is made.

use std::path::Path;

use super::source::Source;
use super::{Kit, Load, Made, has, timed};
use crate::{Result, program};

struct Glimpse {
    source: Source,
}

/// It, where there are glimpse and a source tree.
pub fn make(kit: &Kit) -> Made {
    let source = if has(&["glimpseindex"]) { kit.source()?.cloned() } else { None };
    Ok(source.map(|source| Box::new(Glimpse { source }) as Box<dyn Load>))
}

impl Load for Glimpse {
    fn prepare(&self, home: &Path) -> Result<()> {
        self.source.unpack_to(home)
    }

    fn run(&self, home: &Path) -> Result<f64> {
        timed(home, || program::shell(home, "mkdir $home/index; glimpseindex -H $home/index $home/tree"))
    }

    fn reset(&self, home: &Path) -> Result<()> {
        program::shell(home, "rm -r $home/index")
    }
}
