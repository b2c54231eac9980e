//! Inodes that a repair found without a name: each gets one in `lost+found` when the file system is opened.

use crate::change::Change;
use crate::fs::FileSystem;
use crate::inode::LOST;
use crate::{Credentials, Error, Ino, Kind, NewFile, Result};

const DIRECTORY: &[u8] = b"lost+found";

impl FileSystem {
    /// Gives every lost inode a name: `#` and its number. One that finds no space stays lost until the next time.
    pub(crate) fn rescue_lost(&self) -> Result<()> {
        for ino in self.orphans.ready() {
            let is_lost = self.load(ino).is_ok_and(|inode| inode.head.flags & LOST != 0);
            match if is_lost { self.rescue(ino) } else { Ok(()) } {
                Ok(()) | Err(Error::NoSpace | Error::Exists) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn rescue(&self, ino: Ino) -> Result<()> {
        let found = self.lost_and_found()?;
        let name = format!("#{}", ino.0);
        let name = self.name_to_make(name.as_bytes())?;
        let mut dir = self.load_living(found)?;
        let place = self.make_room(&mut dir, &name)?;
        let mut inode = self.load(ino)?;
        let mut change = Change::new(self);
        self.add_name(&mut change, &mut dir, (&name, place), (ino, inode.kind().unwrap_or(Kind::File)))?;
        self.free_orphan(&mut change, &mut inode)?;
        inode.head.flags &= !LOST;
        if inode.is_directory() {
            inode.rest.parent = found.0;
            dir.count_links(1, 0);
        }
        change.write_inode(&mut inode);
        change.write_head(&mut dir);
        change.commit()?;
        self.orphans.remove(ino);
        Ok(())
    }

    fn lost_and_found(&self) -> Result<Ino> {
        match self.child(Ino::ROOT, DIRECTORY) {
            Err(Error::NotFound) => {
                let root = self.load(Ino::ROOT)?;
                let by = Credentials { uid: root.head.uid, gid: root.head.gid };
                let new = NewFile { kind: Kind::Directory, mode: 0o700, umask: 0, rdev: 0, by };
                self.create_file(Ino::ROOT, DIRECTORY, &new).map(|attr| attr.ino)
            }
            found => found,
        }
    }
}
