//! An embedded, ordered key-value engine: a log-structured merge tree written from scratch.
