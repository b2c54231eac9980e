//! The last-level cache and what it writes back (nvm-storage-hierarchy.txt, chapter 2).
