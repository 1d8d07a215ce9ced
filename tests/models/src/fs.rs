//! A file as the log's syncer sees it.

/// A file.
pub trait File: Send + Sync {
    /// Make written bytes durable.
    fn sync_data(&self) -> esker_base::Result<()>;
}
