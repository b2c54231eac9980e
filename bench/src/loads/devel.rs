//! devel: a developer's round: a source tree is unpacked, patched, packed, and compared with the one before.

use std::path::Path;

use super::source::Source;
use super::{Kit, Load, Made, has, timed};
use crate::{Result, program};

struct Devel {
    source: Source,
}

/// It, where there is a source tree.
pub fn make(kit: &Kit) -> Made {
    let source = if has(&["tar", "patch", "diff"]) { kit.source()?.cloned() } else { None };
    Ok(source.map(|source| Box::new(Devel { source }) as Box<dyn Load>))
}

/// A patch to every tenth file.
const MAKE_PATCH: &str = r#"
cd $home; cp -r tree new
find new -type f -name '*.[ch]' | sort | awk 'NR % 10 == 1' | xargs -r sed -i '1s|^|/* changed */\n|'
diff -ru --no-dereference tree new > patch || test $? = 1
rm -r new"#;

const RUN: &str = r#"
cd $home; mkdir new
tar -xf source.tar -C new
patch --silent --strip=1 --directory=new < patch
tar -cf new.tar new
diff -r --no-dereference tree new > difference || test $? = 1"#;

impl Load for Devel {
    fn prepare(&self, home: &Path) -> Result<()> {
        self.source.copy_to(home)?;
        self.source.unpack_to(home)?;
        program::shell(home, MAKE_PATCH)
    }

    fn run(&self, home: &Path) -> Result<f64> {
        timed(home, || program::shell(home, RUN))
    }

    fn reset(&self, home: &Path) -> Result<()> {
        program::shell(home, "cd $home; rm -r new new.tar difference")
    }
}
