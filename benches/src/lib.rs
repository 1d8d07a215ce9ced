//! How much it costs: workloads, experiments and reports for the esker storage engine.
//!
//! [`lab`] runs the experiments on key layouts: it drives a store through a layout, compares what the
//! store counted with a formula, operation by operation, fits how counters and time grow, and says
//! which claims hold. [`workload`] measures one kind of operation at a time on the engine,
//! [`layout_cost`] has layouts' operations beside the same engine calls by hand.
#![forbid(unsafe_code)]

pub mod lab;
pub mod layout_cost;
pub mod workload;
