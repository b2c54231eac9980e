//! The cases of the experiment, and the subjects of each.

use crate::options::Length;
use crate::region_work::{LoadShape, RegionKind, RegionLoad};

/// The same engine with all memory, full-virtual: no store faults.
pub const ALL: &str = "all memory";
/// The same engine with all memory, para-virtual.
pub const ALL_PARA: &str = "pv, all memory";
/// A mapped file of this machine's disk.
pub const MSYNC: &str = "mmap, msync";
/// A mapped file in memory.
pub const BARE: &str = "bare mapping";
/// How many times as long stores to PCM take (figure 4).
const PCM_TIMES: f64 = 8.0;

/// What a subject's region is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectMemory {
    /// A guest with frames for so many percent of its bytes.
    Guest {
        /// Full- or para-virtual.
        kind: RegionKind,
        /// The percent.
        percent: u64,
    },
    /// A mapped file.
    Peer(RegionKind),
}

/// A subject.
#[derive(Clone, Debug, PartialEq)]
pub struct GuestSubject {
    /// The name.
    pub name: String,
    /// The region.
    pub memory: SubjectMemory,
    /// Pages leave in batches with one flush each.
    pub has_batches: bool,
    /// Displaced pages stay as copies.
    pub keeps_copies: bool,
}

impl GuestSubject {
    fn of(name: impl Into<String>, memory: SubjectMemory) -> Self {
        Self { name: name.into(), memory, has_batches: true, keeps_copies: true }
    }

    fn full(percent: u64) -> Self {
        let name = if percent >= 100 { ALL.into() } else { format!("hv {percent} %") };
        Self::of(name, SubjectMemory::Guest { kind: RegionKind::Full, percent })
    }

    fn para(percent: u64) -> Self {
        let name = if percent >= 100 { ALL_PARA.into() } else { format!("pv {percent} %") };
        Self::of(name, SubjectMemory::Guest { kind: RegionKind::Para, percent })
    }

    /// The subjects with all memory, then those with parts of it.
    fn parts(full: &[u64], para: &[u64]) -> Vec<Self> {
        let full = [100].iter().chain(full).map(|percent| Self::full(*percent));
        let para = para.iter().map(|percent| Self::para(*percent));
        full.chain(para).collect()
    }
}

/// A case.
#[derive(Clone, Debug)]
pub struct GuestCase {
    /// The name.
    pub name: String,
    kind: RegionLoad,
    theta_percent: u64,
    /// How many times as long as on DRAM stores to persistent memory take.
    pub write_times: f64,
    /// The subjects; all are compared with the first.
    pub subjects: Vec<GuestSubject>,
    /// Parts of the region, in percent, that `fwr` writes.
    touched_percent: u64,
}

impl GuestCase {
    fn of(kind: RegionLoad, theta_percent: u64, subjects: Vec<GuestSubject>) -> Self {
        let choice = if theta_percent == 0 { "uniform".into() } else { format!("zipf 0.{theta_percent}") };
        let name = format!("{}, {choice}", kind.name());
        Self { name, kind, theta_percent, write_times: 1.0, subjects, touched_percent: 100 }
    }

    /// Every case of a run of `length`.
    pub fn all(length: Length) -> Vec<Self> {
        let parts = |full: &'static [u64], para: &'static [u64], all: &'static [u64]| {
            if length == Length::Full { GuestSubject::parts(all, all) } else { GuestSubject::parts(full, para) }
        };
        let all: &[u64] = &[10, 20, 40, 60, 80, 100];
        let with_msync = |mut subjects: Vec<GuestSubject>| {
            subjects.push(GuestSubject::of(MSYNC, SubjectMemory::Peer(RegionKind::FileSync)));
            subjects
        };
        // A subject with all memory, full-virtual, is in each list once.
        let once = |mut subjects: Vec<GuestSubject>| {
            let mut names = std::collections::BTreeSet::new();
            subjects.retain(|subject| names.insert(subject.name.clone()));
            subjects
        };
        let mut cases = vec![
            Self::of(RegionLoad::FileServer, 99, once(parts(&[20, 40], &[100, 20], all))),
            Self::of(RegionLoad::FileServer, 0, with_msync(once(parts(&[20], &[100, 20], all)))),
            Self::of(RegionLoad::WebServer, 0, once(parts(&[20], &[100, 20], all))),
            Self::of(RegionLoad::VarMail, 0, with_msync(once(parts(&[20, 60], &[100, 20, 40], all)))),
            Self::of(RegionLoad::Dbench, 0, with_msync(once(parts(&[20], &[100, 20], all)))),
        ];
        if length == Length::Full {
            for kind in [RegionLoad::WebServer, RegionLoad::VarMail, RegionLoad::Dbench] {
                cases.push(Self::of(kind, 99, once(parts(&[], &[], all))));
            }
        }
        cases.extend(Self::on_pcm(length));
        cases.extend(Self::rewrites());
        cases.extend(Self::ablations());
        cases
    }

    /// Figure 7.
    fn on_pcm(length: Length) -> impl Iterator<Item = Self> {
        let kinds: &[RegionLoad] = length.pick([
            &[RegionLoad::FileServer, RegionLoad::VarMail, RegionLoad::WebServer],
            &PCM_KINDS,
            &PCM_KINDS,
        ]);
        kinds.iter().map(move |kind| {
            let full: &[u64] = length.pick([&[20, 40, 70], &[70], &[70]]);
            let para: &[u64] = length.pick([&[20, 50, 100], &[50], &[50]]);
            let case = Self::of(*kind, 0, GuestSubject::parts(full, para));
            Self { name: format!("PCM: {}", kind.name()), write_times: PCM_TIMES, ..case }
        })
    }

    /// Figure 5.
    fn rewrites() -> impl Iterator<Item = Self> {
        [("fwr, within P", 25), ("fwr, over V", 100)].into_iter().map(|(name, touched_percent)| {
            let hv = GuestSubject { name: "hv".into(), ..GuestSubject::full(40) };
            let subjects = vec![GuestSubject::of(BARE, SubjectMemory::Peer(RegionKind::Bare)), hv];
            Self { name: name.into(), touched_percent, ..Self::of(RegionLoad::Fwr, 0, subjects) }
        })
    }

    /// Figure 8: with and without a mechanism; all are compared with the subject without.
    fn ablations() -> [Self; 2] {
        let without_batches =
            GuestSubject { name: "hv 20 %, a flush for each run".into(), has_batches: false, ..GuestSubject::full(20) };
        let without_copies =
            GuestSubject { name: "hv 30 %, no copies".into(), keeps_copies: false, ..GuestSubject::full(30) };
        let batching = Self::of(RegionLoad::FileServer, 0, vec![without_batches, GuestSubject::full(20)]);
        let lazy = Self::of(RegionLoad::VarMail, 0, vec![without_copies, GuestSubject::full(30)]);
        [
            Self { name: "batching: file server".into(), ..batching },
            Self { name: "lazy reallocation: varmail on PCM".into(), write_times: PCM_TIMES, ..lazy },
        ]
    }

    /// The load of the case in a region of `size` bytes.
    pub fn load(&self, size: u64) -> LoadShape {
        let touched_bytes = (self.touched_percent < 100).then_some(size * self.touched_percent / 100);
        LoadShape { touched_bytes, ..LoadShape::new(self.kind, self.theta_percent) }
    }
}

/// The loads on PCM of a short run.
const PCM_KINDS: [RegionLoad; 2] = [RegionLoad::FileServer, RegionLoad::VarMail];
