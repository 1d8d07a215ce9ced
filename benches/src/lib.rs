//! How much it costs: workloads, experiments and reports for the esker storage engine.
