//! Sorted entries in a file: the tables of the esker storage engine.
