//! Something that is wrong, and what puts it right.
//!
//! - FK1. A repair is one transaction. A page that it copies is durable first, and unnamed until then.

use ferrite_memory::{Scheme, planted};
use ferrite_pool::layout::PAGE;
use ferrite_pool::{Pool, Result};

use crate::format::inode::Inode;

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FsFinding {
    pub what: String,
    /// Where it lies in the pool.
    pub at: u64,
    /// The repair, if exactly one answer is right.
    pub fix: Option<Fix>,
    /// Two facts contradict each other, and no third decides (FD2).
    pub is_in_doubt: bool,
}

/// Words to be written in one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fix {
    pub writes: Vec<(u64, Vec<u8>)>,
    /// A page that is copied first to an unused page: the places of both.
    pub copy: Option<(u64, u64)>,
    /// What was done, and what was lost by that.
    pub done: String,
}

impl FsFinding {
    pub fn new(what: impl Into<String>, at: u64) -> Self {
        Self { what: what.into(), at, fix: None, is_in_doubt: false }
    }

    /// A contradiction that a repair could only guess about.
    pub fn doubt(what: impl Into<String>, at: u64) -> Self {
        Self { is_in_doubt: true, ..Self::new(what, at) }
    }

    pub fn fixed_by(self, fix: Fix) -> Self {
        Self { fix: Some(fix), ..self }
    }
}

impl Fix {
    /// Word `word` at `at`.
    pub fn word(at: u64, word: u64, done: impl Into<String>) -> Self {
        Self { writes: vec![(at, word.to_le_bytes().to_vec())], copy: None, done: done.into() }
    }

    /// Writes the head and the rest of a repaired inode.
    pub fn inode(mut inode: Inode, done: impl Into<String>) -> Self {
        let (at, bytes) = inode.all_bytes();
        Self { writes: vec![(at, bytes.to_vec())], copy: None, done: done.into() }
    }

    /// Where the words lie that it writes.
    pub fn words(&self) -> impl Iterator<Item = u64> + '_ {
        self.writes.iter().flat_map(|(at, bytes)| (*at..at + bytes.len() as u64).step_by(8))
    }

    pub fn apply(&self, pool: &Pool) -> Result<()> {
        if let Some((from, to)) = self.copy {
            let mut page = vec![0; PAGE as usize];
            pool.memory().load(from, &mut page);
            pool.memory().store(to, &page, Scheme::Nt);
            persist(pool)?;
        }
        let mut transaction = pool.transaction();
        self.writes.iter().for_each(|(at, bytes)| transaction.write(*at, bytes));
        transaction.commit()
    }
}

fn persist(pool: &Pool) -> Result<()> {
    planted!("fs: name before copy" => return Ok(()));
    Ok(pool.memory().drain()?)
}
