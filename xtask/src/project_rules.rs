//! The rules of the project, its ledger and its frozen interfaces: what `tidy`, `prose` and `ledger` do.

use std::path::PathBuf;

use crate::project::Project;
use crate::source::RustSource;
use crate::tidy::freeze::{self, LIBRARIES, lost};
use crate::tidy::ledger::{self, NameKind, Reasons, missing, names_of, text_of};
use crate::tidy::{self, CheckedProject, RuleFinding, prose, size, structure, walls};
use crate::tree::ProjectTree;

impl Project {
    /// Checks the rules of the project. Returns what is worth a look, and what the project measures.
    ///
    /// # Errors
    /// The findings, one a line.
    pub fn tidy(&self) -> Result<String, String> {
        let tree = self.tree()?;
        let project = CheckedProject::new(&tree);
        let mut findings = tidy::check(&project);
        let golden = freeze::golden(self.root()).map_err(|error| format!("testdata: {error}"))?;
        for line in lost(tree.text(freeze::GOLDEN).unwrap_or_default(), &golden) {
            findings.push(RuleFinding::new(freeze::GOLDEN, 1, format!("{line}: this golden file changed or went")));
        }
        if findings.is_empty() {
            let warnings: String = size::warnings(&project).iter().map(|warning| format!("{warning}\n")).collect();
            return Ok(format!("{warnings}{}", figures(&project)));
        }
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        Err(format!("{}\n{} findings", lines.join("\n"), findings.len()))
    }

    /// Lists the lines of comments and pages below `folder` that have a construction which slows a reader down.
    ///
    /// # Errors
    /// The project cannot be read.
    pub fn prose(&self, folder: &str) -> Result<String, String> {
        let mut tree = self.tree()?;
        tree.files.retain(|file| file.path.starts_with(folder));
        let mut lines = Vec::new();
        for (package, count) in prose::count(&tree.files) {
            let bad =
                count.bad.iter().map(|bad| format!("{}:{}: {} ({})", bad.path, bad.line, bad.text.trim(), bad.hint));
            lines.extend(bad);
            lines.push(format!("{package}: {} of {} lines, {:.2} %", count.bad.len(), count.lines, count.share()));
        }
        Ok(lines.join("\n"))
    }

    /// Writes the ledger, the frozen lists and the map of ARCHITECTURE.md, unless a name went without a reason.
    ///
    /// # Errors
    /// What is missing, one a line, or a file that cannot be written.
    pub fn renew_ledger(&self) -> Result<String, String> {
        let page = walls::with_map(self.tree()?.text(walls::PAGE).unwrap_or_default());
        let page = page.ok_or_else(|| format!("{}: the lines around the map are missing", walls::PAGE))?;
        self.write(walls::PAGE, &page)?;
        self.tidy()?;
        let tree = self.tree()?;
        let sources = RustSource::all(&tree);
        let mut texts = vec![
            (NameKind::Test.path(), text_of(NameKind::Test, &ledger::tests(&tree, &sources))),
            (NameKind::Invariant.path(), text_of(NameKind::Invariant, &ledger::invariants(&sources))),
            (freeze::JSON.into(), freeze::json_keys(tree.text("docs/json.md").unwrap_or_default())),
            (freeze::GOLDEN.into(), freeze::golden(self.root()).map_err(|error| format!("testdata: {error}"))?),
        ];
        if let Ok(lines) = std::fs::read_to_string(self.explored()) {
            self.explorations()?;
            texts.push((NameKind::Exploration.path(), text_of(NameKind::Exploration, &ledger::explorations(&lines))));
        }
        for (library, frozen) in LIBRARIES {
            let built = self.target().join(library);
            if built.is_file() {
                texts.push((frozen.into(), freeze::symbols(&built)?));
            }
        }
        let mut written = Vec::new();
        for (path, text) in texts {
            self.write(&path, &text)?;
            written.push(format!("{path}: {} lines", text.lines().count()));
        }
        Ok(written.join("\n"))
    }

    /// Compares what the tests of this run explored with the ledger.
    ///
    /// # Errors
    /// The explorations that tried less, one a line.
    pub fn explorations(&self) -> Result<String, String> {
        let tree = self.tree()?;
        let lines = std::fs::read_to_string(self.explored()).map_err(|error| format!("explorations: {error}"))?;
        let now = ledger::explorations(&lines);
        let kept = names_of(tree.text(&NameKind::Exploration.path()).unwrap_or_default());
        let lost = missing(NameKind::Exploration, &kept, &now, &Reasons::of(&tree, &mut Vec::new()));
        let sum = |at: usize| now.values().map(|counts| counts[at]).sum::<u64>();
        let counts =
            format!("{} explorations, {} crash points, {} images, {} planted bugs", sum(0), sum(1), sum(2), sum(3));
        if lost.is_empty() {
            return Ok(counts);
        }
        Err(format!("{}\n{counts}, {} tests tried less", lost.join("\n"), lost.len()))
    }

    /// Compares the symbols of the libraries that were built with the frozen ones.
    ///
    /// # Errors
    /// The symbols that went or are new, one a line, or a library that is missing.
    pub fn symbols(&self) -> Result<String, String> {
        let tree = self.tree()?;
        let mut wrong = Vec::new();
        for (library, frozen) in LIBRARIES {
            let (then, now) = (tree.text(frozen).unwrap_or_default(), freeze::symbols(&self.target().join(library))?);
            wrong.extend(lost(then, &now).iter().map(|line| format!("{library}: `{line}` went")));
            wrong.extend(lost(&now, then).iter().map(|line| format!("{library}: `{line}` is new")));
        }
        if wrong.is_empty() { Ok("as frozen".into()) } else { Err(wrong.join("\n")) }
    }

    /// Returns the file to which the crash explorations of a run of the gate append their counts.
    pub fn explored(&self) -> PathBuf {
        self.target().join("explorations.txt")
    }

    fn tree(&self) -> Result<ProjectTree, String> {
        ProjectTree::read(self.root()).map_err(|error| format!("{}: {error}", self.root().display()))
    }

    fn write(&self, path: &str, text: &str) -> Result<(), String> {
        std::fs::write(self.root().join(path), text).map_err(|error| format!("{path}: {error}"))
    }
}

/// Returns in one line what the project measures.
fn figures(project: &CheckedProject<'_>) -> String {
    let measures = structure::measures(&project.sources);
    let most = measures.methods.iter().max_by_key(|(_, count)| **count);
    let methods = most.map(|(name, count)| format!("{count} methods of {name}")).unwrap_or_default();
    let cycle = measures.cycles.values().map(Vec::len).max().unwrap_or(0);
    let worst = prose::count(&project.tree.files).into_values().map(|count| count.share()).fold(0.0, f64::max);
    format!(
        "{} files keep the rules: prose {worst:.2} % at most, {:.1} % shared names, {methods} at most, {cycle} files in a \
         circle at most, {} tuples",
        project.tree.files.len(),
        measures.shared,
        measures.tuples.len()
    )
}
