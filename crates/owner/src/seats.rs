//! How many connections there are, in all and of one process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Counts the connections, by process.
#[derive(Clone, Debug, Default)]
pub(super) struct Seats(Arc<Mutex<HashMap<u32, usize>>>);

/// A counted connection, until dropped.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Seats,
    pid: u32,
}

/// How many connections there may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub all: usize,
    pub per_process: usize,
}

impl Seats {
    /// A seat for a connection of process `pid`, or why there is none.
    pub fn take(&self, pid: u32, room: Room) -> Result<Seat, String> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, own) = (taken.values().sum::<usize>(), taken.get(&pid).copied().unwrap_or(0));
        if own >= room.per_process {
            return Err(format!("process {pid} has {own} connections to the pool's owner already: close some"));
        }
        if all >= room.all {
            return Err(format!("the pool's owner has {all} connections already: close some"));
        }
        taken.insert(pid, own + 1);
        Ok(Seat { seats: self.clone(), pid })
    }

    /// How many are taken.
    pub fn taken(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }
}

impl Seat {
    /// Gives it up; whether its process has no other.
    pub fn leave(self) -> bool {
        let (seats, pid) = (self.seats.clone(), self.pid);
        drop(self);
        !seats.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&pid)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = taken.get_mut(&self.pid) {
            *own -= 1;
        }
        taken.retain(|_, own| *own > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// O4: one process cannot take every connection, and a closed one makes room.
    #[test]
    fn seats_are_counted_in_all_and_by_process() {
        let (seats, room) = (Seats::default(), Room { all: 3, per_process: 2 });
        let first = seats.take(1, room).expect("first");
        let second = seats.take(1, room).expect("second");
        assert!(seats.take(1, room).unwrap_err().contains("process 1 has 2"));
        let _third = seats.take(2, room).expect("another process");
        assert!(seats.take(3, room).unwrap_err().contains("has 3 connections"));
        assert_eq!(seats.taken(), 3);
        assert!(!first.leave(), "the process has another");
        assert_eq!(seats.taken(), 2);
        let _again = seats.take(3, room).expect("room again");
        assert!(second.leave());
    }
}
