//! Opaque records, in order, durable: the write-ahead log of the esker storage engine.
