//! How much it costs: workloads, experiments and reports for the esker storage engine.
//!
//! [`lab`] runs the experiments on key layouts: it drives a store through a layout, compares what the
//! store counted with a formula, operation by operation, fits how counters and time grow, and says
//! which claims hold.
#![forbid(unsafe_code)]

pub mod lab;
