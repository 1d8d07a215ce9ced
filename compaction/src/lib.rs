//! When and how to merge: pickers, plans and the merge run of the esker storage engine.
