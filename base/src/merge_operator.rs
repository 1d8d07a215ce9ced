//! Merge operators: blind writes that combine with the key's value when it is read or compacted.

/// Combines operands with a base value. Registered with the database under [`name`], which is stored
/// with the keyspace and checked at open.
///
/// It must not call the database: it is called in the middle of reads, flushes and compactions, and of a
/// commit, for which all writers wait. It is called on the engine's threads as well, and a thread that is
/// started from here would inherit from them on which processors it may run: see
/// [`Listener`](crate::event::Listener).
///
/// [`name`]: MergeOperator::name
pub trait MergeOperator: Send + Sync {
    /// The operator's name, stored with every keyspace that uses it. Not empty, and not the name of a
    /// built-in one.
    fn name(&self) -> &str;

    /// The value of `key` after `operands` (oldest first, at least one) are applied to `base`
    /// (`None`: the key does not exist). At most 1 GiB; more is refused. The error says, for people, what was refused: it becomes
    /// [`Error::Merge`](crate::Error::Merge) of the read, and a flush or compaction keeps the operands. A panic becomes
    /// [`Error::CallbackPanicked`](crate::Error::CallbackPanicked); one that comes each time stops writes. Must depend on its arguments alone: it is called again
    /// at other times and places.
    fn fold(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String>;

    /// One operand equal to `older` followed by `newer`, or `None` if they cannot be combined
    /// without the base. Which neighbours are combined first is not said. Keeps chains short; the default combines nothing.
    fn combine(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let _ = (key, older, newer);
        None
    }
}
