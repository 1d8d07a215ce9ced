//! Merge operators: blind writes that combine with the key's value when it is read or compacted.

/// Combines operands with a base value. Registered with the database under [`name`], which is stored
/// with the keyspace and checked at open.
///
/// Called on the engine's threads as well, of which a thread that is started from here would inherit on which processors it
/// may run: see [`Listener`](crate::event::Listener).
///
/// [`name`]: MergeOperator::name
pub trait MergeOperator: Send + Sync {
    /// The operator's name, stored with every keyspace that uses it.
    fn name(&self) -> &str;

    /// The value of `key` after `operands` (oldest first, at least one) are applied to `base`
    /// (`None`: the key does not exist). The error says, for people, what was refused.
    fn fold(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String>;

    /// One operand equal to `older` followed by `newer`, or `None` if they cannot be combined
    /// without the base. Keeps chains short; the default combines nothing.
    fn combine(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let _ = (key, older, newer);
        None
    }
}
