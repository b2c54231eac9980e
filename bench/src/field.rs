//! The subjects of an experiment, and everything that must outlive them.

use std::any::Any;

/// Subjects by name. They are dropped before what they need, and that in the reverse order of its making.
pub struct Field<T> {
    /// The subjects, ours first.
    pub entries: Vec<(&'static str, T)>,
    kept: Vec<Box<dyn Any>>,
}

impl<T> Default for Field<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), kept: Vec::new() }
    }
}

impl<T> Field<T> {
    /// Adds a subject.
    pub fn enter(&mut self, name: &'static str, subject: T) {
        self.entries.push((name, subject));
    }

    /// Keeps what subjects need until all of them are dropped.
    pub fn keep(&mut self, needed: impl Any) {
        self.kept.push(Box::new(needed));
    }

    /// The subject called `name`, if it takes part.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.entries.iter().find(|(entry, _)| *entry == name).map(|(_, subject)| subject)
    }
}

impl<T> Drop for Field<T> {
    fn drop(&mut self) {
        self.entries.clear();
        while self.kept.pop().is_some() {}
    }
}

#[cfg(test)]
mod tests;
