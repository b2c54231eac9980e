//! Threads that go on from one slice to the next, as those of a program do: what one learned of a file it still knows.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use rayon_core::{ThreadPool, ThreadPoolBuilder};

use crate::{Error, Result};

thread_local! {
    static CREWS: RefCell<HashMap<u64, Rc<ThreadPool>>> = RefCell::default();
}

/// Does `work` at once by as many threads, each with its number: whenever the caller asks for so many, the same ones, and
/// himself where he asks for one.
pub fn together<T: Send>(threads: u64, work: impl Fn(u64) -> Result<T> + Sync) -> Result<Vec<T>> {
    if threads == 1 {
        return Ok(vec![work(0)?]);
    }
    let crew = crew_of(threads)?;
    crew.broadcast(|member| work(member.index() as u64)).into_iter().collect()
}

fn crew_of(threads: u64) -> Result<Rc<ThreadPool>> {
    let known = CREWS.with_borrow(|crews| crews.get(&threads).cloned());
    if let Some(crew) = known {
        return Ok(crew);
    }
    let built = ThreadPoolBuilder::new().num_threads(threads as usize).build();
    let failed = |why| Error::io(format!("starting {threads} threads"))(std::io::Error::other(why));
    let crew = Rc::new(built.map_err(failed)?);
    CREWS.with_borrow_mut(|crews| crews.insert(threads, Rc::clone(&crew)));
    Ok(crew)
}
