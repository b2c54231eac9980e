//! Detection of the format of a text trace: the format whose reader accepts the first lines. No second description of a
//! format exists that could differ.
//!
//! 1. If one reader accepts all first lines and finds records in them, the trace has that reader's format. If no reader
//!    finds a record, the trace has the one format whose reader accepts the lines.
//! 2. If several readers do, the trace has no format, and the error names them all.
//! 3. If no reader does, the trace has the format whose reader gets furthest, so that the error names the wrong line.
//!    If several get equally far, the error gives the reason of each.

use std::path::Path;

use crate::Error;

/// The first lines of a trace, by which its format is detected.
pub struct FirstLines<'a>(Vec<&'a [u8]>);

impl<'a> FirstLines<'a> {
    /// Returns all lines of `begin`, the last one with or without its end.
    fn all(begin: &'a [u8]) -> Self {
        Self(begin.split(|byte| *byte == b'\n').collect())
    }

    /// Returns the lines of `begin` that have an end, or all of `begin` if no line has an end.
    fn ended(begin: &'a [u8]) -> Self {
        Self::all(begin.iter().rposition(|byte| *byte == b'\n').map_or(begin, |end| &begin[..end]))
    }

    /// Tries a reader: `parse` returns how many records it finds in a line, or why it refuses the line.
    pub fn try_reader<F>(&self, format: F, mut parse: impl FnMut(&[u8]) -> Result<usize, String>) -> FormatTrial<F> {
        let mut trial = FormatTrial { format, lines: 0, records: 0, refusal: None };
        for (line, number) in self.0.iter().zip(1..) {
            match parse(line) {
                Ok(records) => {
                    trial.records += records;
                    trial.lines += usize::from(!line.trim_ascii().is_empty());
                }
                Err(reason) => {
                    trial.refusal = Some((number, reason));
                    break;
                }
            }
        }
        trial
    }
}

/// The result of one format's reader on the first lines.
pub struct FormatTrial<F> {
    format: F,
    /// Lines that the reader accepts and that are not blank.
    lines: usize,
    records: usize,
    /// The line that the reader refuses, from 1, and why.
    refusal: Option<(u64, String)>,
}

impl<F> FormatTrial<F> {
    fn has_accepted(&self) -> bool {
        self.refusal.is_none() && self.lines > 0
    }
}

/// The format of a trace by rules 1 to 3, or the reasons why it has no format.
pub struct FormatVerdict<F> {
    /// The formats whose readers accept everything.
    accepting: Vec<F>,
    /// The format whose reader alone gets furthest, if it accepts a line.
    furthest: Option<F>,
    /// The line that the furthest readers refuse, and the reason of each.
    refusals: (u64, Vec<(F, String)>),
}

impl<F: Copy> FormatVerdict<F> {
    /// Compares the results of `trials` on the first lines of a trace. If the trace is known whole, its last line
    /// counts too, unless no reader accepts it: then the trace was cut there.
    pub fn of(begin: &[u8], is_whole: bool, trials: impl Fn(&FirstLines<'_>) -> Vec<FormatTrial<F>>) -> Self {
        let verdict = is_whole.then(|| Self::compare(trials(&FirstLines::all(begin))));
        let found = verdict.filter(|verdict| !verdict.accepting.is_empty());
        found.unwrap_or_else(|| Self::compare(trials(&FirstLines::ended(begin))))
    }

    fn compare(trials: Vec<FormatTrial<F>>) -> Self {
        let finds = |trial: &&FormatTrial<F>| trial.has_accepted() && trial.records > 0;
        let mut accepting: Vec<F> = trials.iter().filter(finds).map(|trial| trial.format).collect();
        if accepting.is_empty() {
            let accepted = trials.iter().filter(|trial| trial.has_accepted()).map(|trial| trial.format);
            accepting = Some(accepted.collect()).filter(|all: &Vec<F>| all.len() == 1).unwrap_or_default();
        }
        let line = trials.iter().filter_map(|trial| Some(trial.refusal.as_ref()?.0)).max().unwrap_or(1);
        let refused = |trial: FormatTrial<F>| {
            let FormatTrial { format, lines, refusal, .. } = trial;
            refusal.filter(|refusal| refusal.0 == line).map(|(_, reason)| (format, lines, reason))
        };
        let last: Vec<_> = trials.into_iter().filter_map(refused).collect();
        let furthest = match last[..] {
            [(format, 1.., _)] => Some(format),
            _ => None,
        };
        let reasons = last.into_iter().map(|(format, _, reason)| (format, reason)).collect();
        Self { accepting, furthest, refusals: (line, reasons) }
    }

    /// Returns the one format whose reader accepts everything.
    pub fn accepted(&self) -> Option<F> {
        if let [format] = self.accepting[..] { Some(format) } else { None }
    }

    /// Returns the format to read the trace as, so that the reader's error names the wrong line.
    pub fn nearest(&self) -> Option<F> {
        self.furthest.filter(|_| self.accepting.is_empty())
    }

    /// Returns true if several readers accept everything.
    pub fn is_ambiguous(&self) -> bool {
        self.accepting.len() > 1
    }

    /// Returns the error that the trace at `path` has no format; `name` returns the name of a format for `--format`.
    pub fn error(&self, path: &Path, name: fn(F) -> &'static str) -> Error {
        if self.is_ambiguous() {
            let names: Vec<&str> = self.accepting.iter().map(|format| name(*format)).collect();
            return Error::malformed(
                path,
                1,
                format!("it can be read as {}: name one with --format", names.join(" and as ")),
            );
        }
        let (line, reasons) = &self.refusals;
        if reasons.is_empty() {
            return Error::malformed(path, 1, "it begins with no line of a known format");
        }
        let reasons: Vec<String> = reasons.iter().map(|(format, why)| format!("{}: {why}", name(*format))).collect();
        Error::malformed(path, *line, format!("not a trace: no format has this line; {}", reasons.join("; ")))
    }
}
