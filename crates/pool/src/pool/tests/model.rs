//! The pool against a map: any sequence of operations, closings, kills and crashes.

use ferrite_crash::{LyingMemory, Model};
use proptest::prelude::*;

use super::*;
use crate::tests::support::{account, cases, new_pool, open};

#[derive(Clone, Debug)]
enum Op {
    Create {
        name: u8,
        pages: u8,
        extents: u8,
        superpages: u8,
    },
    Change {
        name: u8,
        pages: u8,
    },
    Remove {
        name: u8,
    },
    /// Closed in order and opened.
    Reopen,
    /// Power lost between two operations, by this seed.
    Crash(u64),
    /// Killed: everything visible is there.
    Kill,
}

fn op() -> impl Strategy<Value = Op> {
    let name = 0u8..12;
    prop_oneof![
        4 => (name.clone(), 0u8..60, 0u8..12, 0u8..2)
            .prop_map(|(name, pages, extents, superpages)| Op::Create { name, pages, extents, superpages }),
        2 => (name.clone(), 0u8..40).prop_map(|(name, pages)| Op::Change { name, pages }),
        2 => name.prop_map(|name| Op::Remove { name }),
        1 => Just(Op::Reopen),
        1 => any::<u64>().prop_map(Op::Crash),
        1 => Just(Op::Kill),
    ]
}

struct Subject {
    memory: Arc<LyingMemory>,
    pool: Option<Pool>,
    reference: BTreeMap<String, (u64, u8, u64)>,
}

impl Subject {
    fn new(model: Model) -> Self {
        let memory = new_pool(model);
        memory.keep_trace(false);
        let pool = Some(open(&memory));
        Self { memory, pool, reference: BTreeMap::new() }
    }

    fn pool(&self) -> &Pool {
        self.pool.as_ref().expect("it is open between operations")
    }

    fn open(&mut self, memory: Arc<LyingMemory>) {
        memory.keep_trace(false);
        self.pool = Some(open(&memory));
        self.memory = memory;
    }

    fn run(&mut self, op: &Op) {
        match *op {
            Op::Create { name, pages, extents, superpages } => {
                let mut needs = vec![need(Zone::Normal, PAGE); extents.into()];
                needs.push(need(Zone::Normal, u64::from(pages) * PAGE));
                needs.push(need(Zone::Super, u64::from(superpages) * CHUNK));
                let (name, bytes) = (format!("tag {name}"), needs.iter().map(|need| need.bytes).sum());
                let outcome = create(self.pool(), &name, &needs);
                self.learn(&name, outcome.err(), (77, 1, bytes));
            }
            Op::Change { name, pages } => {
                let name = format!("tag {name}");
                let (size, note, bytes) = self.reference.get(&name).copied().unwrap_or_default();
                let first =
                    self.pool().tag(&name).map_or(0, |tag| tag.extents.first().map_or(0, |extent| extent.span().len));
                let outcome = change(self.pool(), &name, &[need(Zone::Normal, u64::from(pages) * PAGE)]);
                let new = (size + 1, note.wrapping_add(1), bytes - first + u64::from(pages) * PAGE);
                self.learn_change(&name, outcome.err(), new);
            }
            Op::Remove { name } => {
                let name = format!("tag {name}");
                let outcome = remove(self.pool(), &name);
                assert_eq!(outcome.is_ok(), self.reference.remove(&name).is_some(), "{outcome:?}");
            }
            Op::Reopen => {
                self.pool.take().expect("open").close().unwrap();
                self.open(self.memory.clone());
            }
            Op::Crash(seed) => self.open(Arc::new(self.memory.crash(seed))),
            Op::Kill => self.open(Arc::new(self.memory.kill())),
        }
    }

    fn learn(&mut self, name: &str, error: Option<Error>, new: (u64, u8, u64)) {
        match error {
            None => assert!(self.reference.insert(name.into(), new).is_none(), "made twice"),
            Some(Error::Exists(_)) => assert!(self.reference.contains_key(name)),
            Some(Error::Full { .. }) => assert!(!self.reference.contains_key(name)),
            Some(other) => panic!("{other}"),
        }
    }

    fn learn_change(&mut self, name: &str, error: Option<Error>, new: (u64, u8, u64)) {
        match error {
            None => assert!(self.reference.insert(name.into(), new).is_some(), "changed what is not there"),
            Some(Error::NotFound(_)) => assert!(!self.reference.contains_key(name)),
            Some(Error::Full { .. }) => assert!(self.reference.contains_key(name)),
            Some(other) => panic!("{other}"),
        }
    }

    fn compare(&self) {
        let bytes = |extents: &[Extent]| extents.iter().map(|extent| extent.span().len).sum::<u64>();
        let found: BTreeMap<_, _> = shot(self.pool())
            .into_iter()
            .map(|(name, (size, note, extents))| (name, (size, note, bytes(&extents))))
            .collect();
        assert_eq!(found, self.reference);
        account(self.pool()).unwrap();
        check_content(self.pool()).unwrap();
    }
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn t1_crash_seeded_any_sequence_is_as_the_reference(ops in prop::collection::vec(op(), 1..40), mapped in any::<bool>()) {
        let mut subject = Subject::new(if mapped { Model::MAPPED } else { Model::FILE });
        for op in &ops {
            subject.run(op);
            subject.compare();
        }
    }
}
