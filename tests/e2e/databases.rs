//! Redis and PostgreSQL, run by the commands of docs/recipes.md and killed with and without their file server. Every
//! acknowledged commit survives.

mod postgres;
mod recipe;
mod redis;
pub mod sqlite;

use std::path::Path;
use std::time::Duration;

use crate::kill::{kill_round_count, number};
use crate::mount::can_mount;
use crate::programs::client;
use crate::server::{assert_sound, folder};
use recipe::Recipe;

/// A database, set up by its recipe.
trait Database {
    /// Creates the database once.
    fn make(&mut self, recipe: &Recipe);

    /// Starts the database, and waits until it answers.
    fn start(&mut self, recipe: &Recipe);

    /// Commits until `after` has passed and the database is killed. Returns the last acknowledged commit.
    fn commit_until_killed(&mut self, from: u64, after: Duration, kill_more: &mut dyn FnMut()) -> u64;

    /// Returns the number of commits, which count from 1 without a gap. Panics if one is missing.
    fn count(&mut self) -> u64;

    /// Kills the database.
    fn kill(&mut self);
}

const SERVER: &str = "A file system for the others";

/// Kills `database` `rounds` times, and every fifth time also the server of its files.
fn kill_rounds(database: &mut dyn Database, rounds: u64) {
    let mut seed = number("FERRITE_SEED", 1);
    println!("FERRITE_SEED={seed}");
    let folder = folder(true);
    let recipe = Recipe::new(folder.path());
    let _mounted = Unmounts(&recipe.mount);
    let mut server = Some(recipe.serve(SERVER, 0));
    database.make(&recipe);
    database.start(&recipe);
    let mut known = 0;
    for round in 0..rounds {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let after = Duration::from_millis(2 + (seed >> 33) % 150);
        let with_server = round % 5 == 4;
        known = database.commit_until_killed(known + 1, after, &mut || {
            if with_server {
                server.take().expect("it runs").kill();
            }
        });
        if with_server {
            server = Some(recipe.serve(SERVER, 0));
        }
        database.start(&recipe);
        let found = database.count();
        assert!(found >= known, "round {round}: {found} of {known} acknowledged commits");
        known = found;
    }
    println!("{rounds} kills, {known} commits, none lost");
    assert!(known > rounds, "nearly nothing was committed, so nothing was proven");
    database.kill();
    server.expect("it runs").interrupt();
    assert_sound(&folder.path().join("pool"));
}

/// Unmounts a test's mount when dropped, whether the test passed or failed.
struct Unmounts<'a>(&'a Path);

impl Drop for Unmounts<'_> {
    fn drop(&mut self) {
        for how in [&[][..], &["-l"]] {
            if client("umount").args(how).arg(self.0).output().is_ok_and(|output| output.status.success()) {
                return;
            }
        }
    }
}

#[test]
fn kill_rounds_of_redis_lose_no_acknowledged_write() {
    if can_mount() {
        kill_rounds(&mut redis::Redis::default(), kill_round_count());
    }
}

#[test]
fn kill_rounds_of_postgres_lose_no_acknowledged_commit() {
    if can_mount() {
        kill_rounds(&mut postgres::Postgres::default(), kill_round_count());
    }
}
