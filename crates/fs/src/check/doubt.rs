//! What the tables say of where chunks lie and what they are for, where that is damaged.
//!
//! Everything else is found through the tables, so the bytes of a wrong chunk would be believed, and its unnamed pages
//! would be freed.
//!
//! - FD1. While it is in doubt where a chunk lies or what it is for, nothing else is put right: what is named stays
//!   named, and nothing is freed. So it is for a chunk that has no place while there is one that no chunk has.
//! - FD2. Each possible answer is tried on a copy of the tables, by checking the whole file system. The right answer
//!   has the fewest errors. If two answers are equally good and differ in a chunk with named pages, neither is taken;
//!   nor is one that leaves a named chunk empty, or that names cannot confirm. A chunk that is free as it stands, with
//!   no page marked in use, may stay free. If only an answer without named pages is better than the chunk's own word,
//!   the word stands, and the names are wrong.
//! - FD3. Errors that another chunk in doubt causes count neither for an answer nor against it: names of its pages,
//!   and all that only a complete view of the names shows.

use ferrite_pool::layout::CHUNK;

use super::inodes::InodeSurvey;
use super::{CheckedMedia, Fix, FsFinding};
use crate::format::layout::ChunkKind;
use crate::format::layout::DESCRIPTOR;

/// Answers that are tried in one look, each of which takes as long as a look without.
const TRIALS_MAX: usize = 64;

/// The repaired table entry of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TableEntry {
    /// It lies there, or nowhere.
    Place(Option<u64>),
    Kind(ChunkKind),
}

/// The repaired entries of some chunks, by number.
type TableAnswer = Vec<(u64, TableEntry)>;

/// All that is wrong: with the tables, or where nothing is, with what is found through them (FD1).
pub(super) fn look(media: &CheckedMedia<'_>) -> Vec<FsFinding> {
    let mut trials = Trials { media, left: TRIALS_MAX };
    let in_doubt = trials.in_doubt();
    if !in_doubt.is_empty() {
        return in_doubt;
    }
    let survey = InodeSurvey::of(media);
    let mut doubted: Vec<u64> = survey.doubted().collect();
    doubted.sort_by_key(|number| media.is_formless(*number));
    let misnamed = doubted.into_iter().filter_map(|number| trials.misnamed(number)).collect();
    let misnamed = settled(media, misnamed);
    if misnamed.is_empty() { survey.into_wrong() } else { misnamed }
}

impl CheckedMedia<'_> {
    /// Returns true if any bytes may belong to chunk `number`: chunks with recognizable content are tried first.
    fn is_formless(&self, number: u64) -> bool {
        number != 0 && !matches!(self.kind_said(number), Some(ChunkKind::Index | ChunkKind::Inodes))
    }
}

/// What is wrong, and the answer if one is right.
type Settled = (FsFinding, Option<TableAnswer>);

/// An answer, and what is wrong with it.
#[derive(Clone)]
struct TableTrial {
    answer: TableAnswer,
    counts: [usize; 2],
    hides_names: bool,
    /// Something is named in the chunk that it speaks of first, as what that is then.
    is_named: bool,
    /// What it says of chunks of which something is named.
    wanted: TableAnswer,
}

impl TableTrial {
    /// Returns true if it gives nothing to a chunk that may be named.
    fn forsakes(&self) -> bool {
        let all = if self.hides_names { &self.answer } else { &self.wanted };
        all.iter().any(|(_, entry)| matches!(entry, TableEntry::Place(None) | TableEntry::Kind(ChunkKind::Free)))
    }
}

struct Trials<'a> {
    media: &'a CheckedMedia<'a>,
    left: usize,
}

impl Trials<'_> {
    /// Chunks whose word or kind cannot be as it is.
    fn in_doubt(&mut self) -> Vec<FsFinding> {
        let media = self.media;
        let mut unplaced = media.unplaced.clone();
        unplaced.sort_by_key(|number| media.is_formless(*number));
        let mut wrong: Vec<Settled> = unplaced.into_iter().map(|number| self.unplaced(number)).collect();
        for (number, base) in (0..).zip(&media.bases) {
            let kind = media.kind_said(number);
            if base.is_some() && (kind.is_none() || number == 0 && kind != Some(ChunkKind::Inodes)) {
                let what = match number {
                    0 => "chunk 0 has the root directory, and is not said to have inodes".into(),
                    _ => format!("chunk {number} is of a kind that nobody knows"),
                };
                wrong.push((FsFinding::new(what, media.map.descriptor(number)), self.right(kinds(number))));
            }
        }
        settled(media, wrong)
    }

    fn unplaced(&mut self, number: u64) -> Settled {
        let said = self.media.places_said(number);
        let is_said = |base: &Option<u64>| base.as_ref().is_some_and(|base| said.contains(base));
        let other = self.media.bases.iter().position(is_said).map(|other| other as u64);
        let what = match other {
            Some(other) => format!("chunks {other} and {number} are said to lie in one place"),
            None => format!("chunk {number} is said to lie where nothing of the file system is"),
        };
        let answers = match other {
            Some(other) => self.places_of_two(other, number),
            None => self.places(number),
        };
        (FsFinding::new(what, self.media.map.chunk_word(number)), self.right(answers))
    }

    /// Where chunk `number` may lie; the first one always does.
    fn places(&self, number: u64) -> Vec<TableAnswer> {
        // What is named nowhere takes no place that may be another's.
        let nowhere = (number != 0).then_some(None);
        let all = nowhere.into_iter().chain(self.media.spare.iter().map(|place| Some(*place)));
        all.map(|place| vec![(number, TableEntry::Place(place))]).collect()
    }

    /// Where two may lie of which one lies in the place that both are said to.
    fn places_of_two(&self, one: u64, other: u64) -> Vec<TableAnswer> {
        let here = TableEntry::Place(self.media.bases[one as usize]);
        let elsewhere = |number| self.places(number).into_iter().map(|answer| answer[0].1);
        let stays = elsewhere(other).map(|place| vec![(one, here), (other, place)]);
        stays.chain(elsewhere(one).map(|place| vec![(one, place), (other, here)])).collect()
    }

    /// A chunk of which nothing is named but what it has not, if that may be wrong of the tables and not of the names:
    /// it lies in a place that no chunk has, or it is for something else with which less is wrong.
    fn misnamed(&mut self, number: u64) -> Option<Settled> {
        let (what, at, right) = match self.media.bases[number as usize] {
            None if self.media.spare.is_empty() => return None,
            None => {
                let right = self.right(self.places(number));
                ("does not lie where it has", self.media.map.chunk_word(number), right)
            }
            Some(_) => {
                let all = self.all(kinds(number));
                if all.as_deref().is_some_and(|all| self.stays(number, all)) && !self.is_free_and_marked(number) {
                    return None;
                }
                let right = all.map(best).and_then(agreed);
                ("is not of the kind", self.media.map.descriptor(number), right)
            }
        };
        Some((FsFinding::new(format!("chunk {number} {what} that all who name it need"), at), right))
    }

    /// Returns true if, among `all` trials of chunk `number`, only those without named pages are better than its own
    /// word: they merely hide the content, so the names are wrong.
    fn stays(&self, number: u64, all: &[TableTrial]) -> bool {
        let is = self.media.kind_said(number).map(TableEntry::Kind);
        let is_said = |trial: &TableTrial| Some(trial.answer[0].1) == is;
        let in_use = all.iter().filter(|trial| trial.is_named || is_said(trial)).cloned().collect();
        best(in_use).iter().any(is_said)
    }

    /// Returns true if chunk `number` is said to be free, and pages of it to be in use.
    fn is_free_and_marked(&self, number: u64) -> bool {
        let chunk = self.media.chunks[number as usize];
        chunk.is_some_and(|chunk| chunk.kind == ChunkKind::Free && chunk.bitmap != [0; 8])
    }

    /// The right one of `answers` (FD2).
    fn right(&mut self, answers: Vec<TableAnswer>) -> Option<TableAnswer> {
        if answers.len() < 2 {
            return answers.into_iter().next();
        }
        self.all(answers).map(best).and_then(agreed)
    }

    /// Tries each of `answers`, except those that leave no root. Returns `None` if they are too many.
    fn all(&mut self, answers: Vec<TableAnswer>) -> Option<Vec<TableTrial>> {
        self.left = self.left.checked_sub(answers.len())?;
        Some(answers.into_iter().filter_map(|answer| self.tried(answer)).collect())
    }

    fn tried(&self, answer: TableAnswer) -> Option<TableTrial> {
        let mut media = self.media.clone();
        for (number, entry) in &answer {
            let (base, kind) = match entry {
                TableEntry::Place(place) => (*place, media.kind_said(*number)),
                TableEntry::Kind(kind) => (media.bases[*number as usize], Some(*kind)),
            };
            media.chunks[*number as usize] = base.zip(kind).map(|(base, kind)| media.chunk(*number, base, kind));
        }
        let survey = InodeSurvey::of(&media);
        let numbers: Vec<u64> = answer.iter().map(|(number, _)| *number).collect();
        if !survey.has_root && numbers.contains(&0) {
            return None;
        }
        let (counts, hides_names) = (survey.counts(&numbers), survey.hides_names(&numbers));
        let wanted = answer.iter().filter(|(number, _)| survey.is_wanted(*number)).copied().collect();
        let is_named = numbers.first().is_some_and(|number| survey.is_named(*number));
        Some(TableTrial { answer, counts, hides_names, is_named, wanted })
    }
}

/// Those of `tried` with which the fewest things are wrong.
fn best(mut tried: Vec<TableTrial>) -> Vec<TableTrial> {
    let which = usize::from(!tried.iter().any(|trial| trial.hides_names));
    let least = tried.iter().map(|trial| trial.counts[which]).min();
    tried.retain(|trial| Some(trial.counts[which]) == least);
    tried
}

/// The answer of those that are equally good, if they say the same of what is named (FD2).
fn agreed(best: Vec<TableTrial>) -> Option<TableAnswer> {
    let mut best = best.into_iter();
    let first = best.next().filter(|first| !first.forsakes())?;
    best.all(|other| other.wanted == first.wanted).then_some(first.answer)
}

/// Returns the repairs with one right answer, except two in one place.
fn settled(media: &CheckedMedia<'_>, all: Vec<Settled>) -> Vec<FsFinding> {
    let places = |right: &Option<TableAnswer>| -> Vec<TableEntry> {
        let entries = right.iter().flatten().map(|(_, entry)| *entry);
        entries.filter(|entry| matches!(entry, TableEntry::Place(Some(_)))).collect()
    };
    let given: Vec<TableEntry> = all.iter().flat_map(|(_, right)| places(right)).collect();
    let is_once = |entry: &TableEntry| given.iter().filter(|other| *other == entry).count() == 1;
    let one = |(wrong, right): Settled| match right {
        Some(answer) if places(&Some(answer.clone())).iter().all(is_once) => wrong.fixed_by(fix(media, answer)),
        _ => wrong,
    };
    all.into_iter().map(one).collect()
}

fn fix(media: &CheckedMedia<'_>, answer: TableAnswer) -> Fix {
    let (mut writes, mut done) = (Vec::new(), Vec::new());
    for (number, entry) in answer {
        let (word, descriptor) = (media.map.chunk_word(number), media.map.descriptor(number));
        let (write, is_now) = match entry {
            TableEntry::Place(Some(place)) => {
                ((word, (place / CHUNK + 1).to_le_bytes().to_vec()), "has its place".into())
            }
            TableEntry::Place(None) => ((word, vec![0; 8]), "is none".into()),
            // With nothing in use, whatever was marked.
            TableEntry::Kind(ChunkKind::Free) => ((descriptor, vec![0; DESCRIPTOR as usize]), "is free".into()),
            TableEntry::Kind(kind) => {
                ((descriptor, (kind as u64).to_le_bytes().to_vec()), format!("is of kind {kind:?}"))
            }
        };
        writes.push(write);
        done.push(format!("chunk {number} {is_now}"));
    }
    Fix { writes, copy: None, done: done.join(", ") }
}

/// What chunk `number` may be for; the first one has inodes. One that nothing is known of is free.
fn kinds(number: u64) -> Vec<TableAnswer> {
    let all = [ChunkKind::Free, ChunkKind::Data, ChunkKind::Index, ChunkKind::Inodes, ChunkKind::Super];
    let may_be = all.into_iter().filter(|kind| number != 0 || *kind == ChunkKind::Inodes);
    may_be.map(|kind| vec![(number, TableEntry::Kind(kind))]).collect()
}
