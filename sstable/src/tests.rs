//! Promises over whole tables.

mod damage;
mod golden;
mod hostile;
mod writing;
