//! Does it hold: crash, property, golden and interface suites for the esker storage engine.
