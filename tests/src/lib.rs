//! Does it hold: crash, property, golden and interface suites for the esker storage engine.
//!
//! The crash suite: [`ops`] draws a history, [`driver`] runs it in step mode on a simulated disk while
//! [`oracle`] writes down what every moment promised, [`crash`] makes the disks that a crash at every
//! call could leave and [`check`] opens each. [`nested`] crashes recovery itself, [`planted`] plants bugs
//! and expects the suite to find them, [`layouts`] does all that with the layouts, [`determinism`] runs histories twice, [`kill`] kills a real process.
//!
//! Every case follows from a seed; a failure says the one command that replays it.
#![forbid(unsafe_code)]

pub mod callbacks;
pub mod case;
pub mod check;
pub mod clock;
pub mod crash;
pub mod damage;
pub mod descriptors;
pub mod determinism;
pub mod driver;
pub mod dump;
pub mod enospc;
pub mod fault;
pub mod files;
pub mod fuzz;
pub mod golden;
pub mod hostile;
#[cfg(unix)]
pub mod kill;
pub mod layout;
pub mod layouts;
pub mod lies;
pub mod many;
pub mod metamorphic;
pub mod model;
pub mod nested;
pub mod ops;
pub mod oracle;
pub mod panics;
pub mod planted;
pub mod points;
#[cfg(unix)]
pub mod powercut;
pub mod real;
#[cfg(unix)]
pub mod rows;
pub mod scenarios;
pub mod script;
pub mod setup;
pub mod shortage;
pub mod spread;
pub mod survivor;
pub mod transactions;
