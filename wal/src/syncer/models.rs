//! Syncs under loom: a writer beside two that sync, in every order and with every stale value that the memory
//! orders allow. Run with
//! `RUSTFLAGS="--cfg loom" cargo test --release --manifest-path tests/models/Cargo.toml`.

use loom::thread;

use super::*;

/// A file whose length is all it has. Relaxed: the log alone has to order its writes and syncs.
#[derive(Default)]
struct Length {
    written: AtomicU64,
    /// What survives power loss.
    safe: AtomicU64,
    /// How many syncs from the first on fail, and forget what they were to make durable.
    failing: AtomicU64,
    /// What is not safe and will never be, whatever a sync says.
    lost: AtomicBool,
}

impl File for Length {
    fn sync_data(&self) -> Result<()> {
        let reached = self.written.load(Ordering::Relaxed);
        if self.failing.load(Ordering::Relaxed) > 0 {
            self.failing.fetch_sub(1, Ordering::Relaxed);
            self.lost.store(true, Ordering::Relaxed);
            return Err(Error::io("sync", "log", std::io::Error::other("the device has failed")));
        }
        if !self.lost.load(Ordering::Relaxed) {
            self.safe.fetch_max(reached, Ordering::Relaxed);
        }
        Ok(())
    }
}

struct Rig {
    file: std::sync::Arc<Length>,
    shared: Arc<Shared>,
}

fn model(failing: u64, test: impl Fn(&Rig) + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let file = std::sync::Arc::new(Length::default());
        file.failing.store(failing, Ordering::Relaxed);
        let shared = Arc::new(Shared::new(std::sync::Arc::clone(&file) as _, 0));
        let rig = Rig { file, shared };
        let writing = {
            let (file, shared) = (std::sync::Arc::clone(&rig.file), Arc::clone(&rig.shared));
            thread::spawn(move || {
                for end in 1..=2 {
                    file.written.store(end, Ordering::Relaxed);
                    shared.publish_written(end);
                }
            })
        };
        let syncing = {
            let (file, shared) = (std::sync::Arc::clone(&rig.file), Arc::clone(&rig.shared));
            thread::spawn(move || sync(&Rig { file, shared }))
        };
        test(&rig);
        syncing.join().expect("syncs");
        writing.join().expect("writes");
        let durable = rig.shared.durable();
        assert!(durable <= rig.file.safe.load(Ordering::Relaxed), "{durable} bytes are said to be durable");
    });
}

/// Sync; what that says is durable is.
fn sync(rig: &Rig) {
    if let Ok(durable) = rig.shared.sync() {
        let safe = rig.file.safe.load(Ordering::Relaxed);
        assert!(durable <= safe, "{durable} bytes are said to be durable, {safe} are");
    }
}

/// What is said to be durable was written before a sync that held began.
#[test]
fn what_is_durable_was_synced() {
    model(0, |rig| {
        sync(rig);
        sync(rig);
    });
}

/// After a failed sync nobody is told Ok any more, though the system says it.
#[test]
fn nothing_is_durable_after_a_failed_sync() {
    model(1, |rig| {
        sync(rig);
        sync(rig);
    });
}
