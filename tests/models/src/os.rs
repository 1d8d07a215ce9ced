//! What the models have of the system.

/// Words to the processor.
pub mod memory {
    /// A model has no caches.
    pub fn prefetch<T>(_at: *const T) {}
}
