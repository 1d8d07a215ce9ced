//! The fuzz targets over their committed corpus, on the stable toolchain. `tests/fuzz` runs them for real.

use esker_tests::fuzz::{TARGETS, replay, run, seeds};

#[test]
fn the_corpus_holds() {
    for (name, _) in TARGETS {
        let count = replay(name).expect("a corpus is committed");
        assert!(count >= 2, "{name} has {count} inputs");
    }
}

#[test]
fn what_is_near_the_seeds_holds() {
    for (name, _) in TARGETS {
        let rounds = if name == "operations" { 8 } else { 100 };
        for (nth, seed) in seeds(name).expect("the golden database").into_iter().enumerate() {
            let mut random = fastrand::Rng::with_seed(nth as u64);
            for _ in 0..rounds {
                let mut data = seed.clone();
                for _ in 0..random.usize(0..4) {
                    let at = random.usize(0..data.len().max(1));
                    if let Some(byte) = data.get_mut(at) {
                        *byte = random.u8(..);
                    }
                }
                data.truncate(random.usize(data.len() / 2..=data.len()));
                run(name, &data);
            }
        }
    }
}

/// `cargo test -p esker-tests --test fuzz -- --ignored`, when a target comes.
#[test]
#[ignore = "writes into the source tree"]
#[expect(clippy::disallowed_methods, reason = "the corpus lies in the source tree")]
fn write_the_seeds_of_new_targets() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    for (name, _) in TARGETS {
        let dir = root.join(name);
        if dir.is_dir() {
            continue;
        }
        std::fs::create_dir_all(&dir).expect("a directory");
        for (nth, seed) in seeds(name).expect("the golden database").iter().enumerate() {
            std::fs::write(dir.join(format!("seed-{nth}")), seed).expect("a file");
        }
    }
}
