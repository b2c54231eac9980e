//! What the tables say of where chunks lie and what they are for, where that is damaged.
//!
//! All else is found through the tables, so what another chunk's bytes say for this one's would be believed, and what they
//! do not name would be freed.
//!
//! - FD1. While it is in doubt where a chunk lies or what it is for, nothing else is put right: what is named stays named,
//!   and nothing is freed.
//! - FD2. Each answer that can be is tried, on a copy of the tables, by looking at all that there is. Right is that with
//!   which the fewest things are wrong. Where two are equally good and differ in a chunk of which anything is named, none is.

use ferrite_pool::layout::CHUNK;

use super::inodes::Survey;
use super::{Fix, Media, Wrong};
use crate::layout::DESCRIPTOR;
use crate::space::ChunkKind;

/// Answers that are tried in one look, each of which takes as long as a look without.
const TRIALS_MAX: usize = 64;

/// What the tables are to say of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    /// It lies there, or nowhere.
    Place(Option<u64>),
    Kind(ChunkKind),
}

/// What they are to say of some, by number.
type Answer = Vec<(u64, Entry)>;

/// All that is wrong: with the tables, or where nothing is, with what is found through them (FD1).
pub(super) fn look(media: &Media<'_>) -> Vec<Wrong> {
    let mut trials = Trials { media, left: TRIALS_MAX };
    let in_doubt = trials.in_doubt();
    if !in_doubt.is_empty() {
        return in_doubt;
    }
    let survey = Survey::of(media);
    let misnamed: Vec<Wrong> = survey.doubted().filter_map(|number| trials.misnamed(number, survey.count())).collect();
    if misnamed.is_empty() { survey.into_wrong() } else { misnamed }
}

struct Trials<'a> {
    media: &'a Media<'a>,
    left: usize,
}

impl Trials<'_> {
    /// Chunks whose word or kind cannot be as it is.
    fn in_doubt(&mut self) -> Vec<Wrong> {
        let media = self.media;
        let mut wrong: Vec<Wrong> = media.unplaced.iter().map(|number| self.unplaced(*number)).collect();
        for (number, base) in (0..).zip(&media.bases) {
            let kind = media.kind_said(number);
            if base.is_some() && (kind.is_none() || number == 0 && kind != Some(ChunkKind::Inodes)) {
                let what = match number {
                    0 => "chunk 0 has the root directory, and is not said to have inodes".into(),
                    _ => format!("chunk {number} is of a kind that nobody knows"),
                };
                let right = self.right(kinds(number), usize::MAX);
                wrong.push(self.settled(Wrong::new(what, media.map.descriptor(number)), right));
            }
        }
        wrong
    }

    fn unplaced(&mut self, number: u64) -> Wrong {
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
        let right = self.right(answers, usize::MAX);
        self.settled(Wrong::new(what, self.media.map.chunk_word(number)), right)
    }

    /// Where chunk `number` may lie; the first one always does.
    fn places(&self, number: u64) -> Vec<Answer> {
        let spare = self.media.spare.iter().map(|place| Some(*place));
        let all = spare.chain((number != 0).then_some(None));
        all.map(|place| vec![(number, Entry::Place(place))]).collect()
    }

    /// Where two may lie of which one lies in the place that both are said to.
    fn places_of_two(&self, one: u64, other: u64) -> Vec<Answer> {
        let here = Entry::Place(self.media.bases[one as usize]);
        let elsewhere = |number| self.places(number).into_iter().map(|answer| answer[0].1);
        let stays = elsewhere(other).map(|place| vec![(one, here), (other, place)]);
        stays.chain(elsewhere(one).map(|place| vec![(one, place), (other, here)])).collect()
    }

    /// A chunk of which nothing is named but what it has not: where it lies, or what it is for, if that leaves less wrong
    /// than `now`.
    fn misnamed(&mut self, number: u64, now: usize) -> Option<Wrong> {
        let (what, at, answers) = match self.media.bases[number as usize] {
            Some(_) => ("is not of the kind", self.media.map.descriptor(number), kinds(number)),
            None => ("does not lie where it has", self.media.map.chunk_word(number), self.places(number)),
        };
        let right = self.right(answers, now)?;
        Some(self.settled(Wrong::new(format!("chunk {number} {what} that all who name it need"), at), Some(right)))
    }

    /// The right one of `answers` (FD2), if with it less is wrong than `now`.
    fn right(&mut self, answers: Vec<Answer>, now: usize) -> Option<Answer> {
        if answers.len() < 2 {
            return answers.into_iter().next();
        }
        self.left = self.left.checked_sub(answers.len())?;
        let tried = answers.into_iter().map(|answer| self.tried(answer)).collect::<Vec<_>>();
        let least = tried.iter().map(|(count, ..)| *count).min().filter(|least| *least < now)?;
        let mut best = tried.into_iter().filter(|(count, ..)| *count == least);
        let (_, named, answer) = best.next()?;
        best.all(|(_, other, _)| other == named).then_some(answer)
    }

    /// How much is wrong with `answer`, and what it says of chunks of which something is named. What leaves no root is none.
    fn tried(&self, answer: Answer) -> (usize, Answer, Answer) {
        let mut media = self.media.clone();
        for (number, entry) in &answer {
            let (base, kind) = match entry {
                Entry::Place(place) => (*place, media.kind_said(*number)),
                Entry::Kind(kind) => (media.bases[*number as usize], Some(*kind)),
            };
            media.chunks[*number as usize] = base.zip(kind).map(|(base, kind)| media.chunk(*number, base, kind));
        }
        let survey = Survey::of(&media);
        let is_rootless = !survey.has_root && answer.iter().any(|(number, _)| *number == 0);
        let count = if is_rootless { usize::MAX } else { survey.count() };
        (count, answer.iter().filter(|(number, _)| survey.is_named(*number)).copied().collect(), answer)
    }

    fn settled(&self, wrong: Wrong, right: Option<Answer>) -> Wrong {
        let Some(answer) = right else { return wrong };
        let (mut writes, mut done) = (Vec::new(), Vec::new());
        for (number, entry) in answer {
            let (word, descriptor) = (self.media.map.chunk_word(number), self.media.map.descriptor(number));
            let (write, is_now) = match entry {
                Entry::Place(Some(place)) => {
                    ((word, (place / CHUNK + 1).to_le_bytes().to_vec()), "has its place".into())
                }
                Entry::Place(None) => ((word, vec![0; 8]), "is none".into()),
                // With nothing in use, whatever was marked.
                Entry::Kind(ChunkKind::Free) => ((descriptor, vec![0; DESCRIPTOR as usize]), "is free".into()),
                Entry::Kind(kind) => {
                    ((descriptor, (kind as u64).to_le_bytes().to_vec()), format!("is of kind {kind:?}"))
                }
            };
            writes.push(write);
            done.push(format!("chunk {number} {is_now}"));
        }
        wrong.fixed_by(Fix { writes, copy: None, done: done.join(", ") })
    }
}

/// What chunk `number` may be for; the first one has inodes. One that nothing is known of is free.
fn kinds(number: u64) -> Vec<Answer> {
    let all = [ChunkKind::Free, ChunkKind::Data, ChunkKind::Index, ChunkKind::Inodes, ChunkKind::Super];
    let may_be = all.into_iter().filter(|kind| number != 0 || *kind == ChunkKind::Inodes);
    may_be.map(|kind| vec![(number, Entry::Kind(kind))]).collect()
}
