//! Promises over whole tables.

mod damage;
mod faults;
mod golden;
mod hostile;
mod writing;
