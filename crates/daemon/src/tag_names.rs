//! Names of tags in requests and lists.

use ferrite_pool::{Failure, FailureKind, Pool, TagKind};

/// Refuses a name that no tag of `kind` has; advises to make one if it is `wanted`.
pub fn ensure_kind(pool: &Pool, name: &str, kind: TagKind, wanted: bool) -> Result<(), Failure> {
    match pool.tag(name) {
        Ok(tag) if tag.kind == kind => Ok(()),
        Ok(tag) => {
            let why = format!("{name:?} is no {}, but a {}", called(kind), called(tag.kind));
            Err(Failure::new(FailureKind::WrongKind, why))
        }
        Err(_) => {
            let command = if kind == TagKind::DISK { "disk" } else { "fs" };
            let create = if wanted { format!(", or `ferrite {command} create` it") } else { String::new() };
            let what = called(kind);
            Err(Failure::not_found(format!("there is no {what} called {name:?}: see `ferrite {command} list`{create}")))
        }
    }
}

fn called(kind: TagKind) -> String {
    match kind {
        TagKind::DISK => "disk".to_string(),
        TagKind::FILES => "file system".into(),
        TagKind::BYTES => "tag of plain bytes".into(),
        other => format!("tag of kind {}", other.name()),
    }
}

/// Returns the `report` of each of `names`, without those that another process removes at the same time.
pub fn report_each<T>(
    names: impl Fn() -> Vec<String>,
    report: impl Fn(&str) -> Result<T, Failure>,
) -> Result<Vec<T>, Failure> {
    let mut reports = Vec::new();
    for name in names() {
        match report(&name) {
            Err(_) if !names().contains(&name) => {}
            described => reports.push(described?),
        }
    }
    Ok(reports)
}

#[cfg(test)]
mod tests;
