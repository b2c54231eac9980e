//! What `check` asks of a database's log.

use ferrite_pool::check::{TagFindings, TagOwner};
use ferrite_pool::{Pool, Tag, TagKind};

use super::File;
use super::files::Files;

/// The owner of databases' logs. What is in a log is the database's to judge; its words are not.
pub struct DatabaseOwner;

impl TagOwner for DatabaseOwner {
    fn kind(&self) -> TagKind {
        TagKind::DATABASE
    }

    fn walk(&self, pool: &Pool, tag: &Tag, findings: &mut TagFindings<'_>) {
        let at = tag.extents.first().map(|extent| extent.span().at);
        let Some(files) = Files::new(pool.memory_handle(), &tag.extents, tag.generation) else {
            return findings.error("it has no page for its words: restore a backup", at);
        };
        for error in [files.mark().err(), files.tie().err()].into_iter().flatten() {
            findings.error(error.to_string(), at);
        }
        for file in File::ALL {
            match files.length(file) {
                Ok(length) if length.unwrap_or(0) > files.space(file) => {
                    findings.error(format!("its {file:?} is longer than its space: restore a backup"), at);
                }
                Ok(_) => {}
                Err(error) => findings.error(error.to_string(), at),
            }
        }
    }
}
