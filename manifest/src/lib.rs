//! Which files make the tree: edits, versions and recovery of the esker storage engine.
