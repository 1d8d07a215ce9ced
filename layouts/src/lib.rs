//! Meaning over an ordered store: tuple keys and data layouts on the esker storage engine.
