use std::sync::Arc;

use esker_base::SeqNo;
use esker_base::table_meta::TableMeta;
use esker_manifest::TableHandle;

use super::*;
use crate::testing::described;

const MIB: u64 = 1 << 20;

/// One table in each level, of the given size in MiB, all over the same keys.
fn tree(levels: &[(u8, u64)]) -> Tree {
    Tree::build(levels.iter().enumerate().map(|(number, &(level, mib))| {
        let number = number as u64 + 1;
        let meta = TableMeta {
            file_bytes: mib * MIB,
            largest_seqno: SeqNo(number),
            ..described(number, "a", "z")
        };
        (level, Arc::clone(&TableHandle::detached(meta)))
    }))
}

fn scored(levels: &[(u8, u64)]) -> Score {
    let settings = Settings { memtable_bytes: 64 * MIB, base_bytes: 64 * MIB, ..Settings::default() };
    score(&tree(levels), &settings, Load::Rested)
}

#[test]
fn the_base_level_rises_as_the_data_grows() {
    let base = |mib| scored(&[(6, mib)]).base_level;
    assert_eq!([1, 640, 641, 650, 6_500, 65_000, 1 << 20].map(base), [6, 6, 5, 5, 4, 3, 2]);
    // It never falls below a level that holds something.
    assert_eq!(scored(&[(3, 1), (6, 65)]).base_level, 3);
}

#[test]
fn targets_grow_by_the_fanout_up_to_the_last_level() {
    let score = scored(&[(6, 6_500)]);
    let mib = |score: &Score, level: usize| score.targets[level] / MIB;
    assert_eq!((score.base_level, mib(&score, 4), mib(&score, 5)), (4, 65, 650));
    assert_eq!((score.targets[3], score.targets[6]), (0, u64::MAX));
    // A level that is there keeps a target worth having, until the data has shrunk to half of that.
    let score = scored(&[(5, 1), (6, 400)]);
    assert_eq!((score.base_level, mib(&score, 5)), (5, 64));
}

#[test]
fn what_is_not_needed_any_more_is_drained() {
    assert!((scored(&[(4, 1), (6, 100)]).levels[4] - 1.0).abs() < 1e-9);
    assert!(scored(&[(5, 1), (6, 330)]).levels[5] < 1.0, "33 MiB: not yet");
    assert!((scored(&[(5, 1), (6, 310)]).levels[5] - 1.0).abs() < 1e-9);
}

#[test]
fn level_0_grows_deeper_while_flushes_come() {
    let eight: Vec<_> = (0..8).map(|_| (0, 40)).chain([(6, 500)]).collect();
    let level0 = |load| score(&tree(&eight), &Settings::default(), load).levels[0];
    assert!((level0(Load::Rested) - 2.0).abs() < 1e-9);
    assert!((level0(Load::Flushing) - 8.0 / 20.0).abs() < 1e-9);
}

/// What reads have paid for is due, but does not go before what would have been more urgent without.
#[test]
fn what_reads_have_paid_for_is_due_and_no_more() {
    let level0 = |tables: &[(u8, u64)]| score(&tree(tables), &Settings::default(), Load::Read).levels[0];
    assert!(level0(&[(6, 500)]) < 1.0);
    assert!((level0(&[(0, 40), (6, 500)]) - 1.0).abs() < 1e-9);
    let eight: Vec<_> = (0..8).map(|_| (0, 40)).chain([(6, 500)]).collect();
    assert!((level0(&eight) - 2.0).abs() < 1e-9);
}

#[test]
fn pending_bytes_count_what_has_to_be_read() {
    assert_eq!(scored(&[(5, 60), (6, 600)]).pending_bytes, 0);
    // 36 MiB too much, and each drags six times its size of the next level along.
    assert_eq!(scored(&[(5, 100), (6, 600)]).pending_bytes, 36 * MIB * 7);
    // Four flushes go through level 5: read with it, and then their excess with level 6.
    let flushes = [(0, 64), (0, 64), (0, 64), (0, 64), (5, 60), (6, 600)];
    let score = scored(&flushes);
    assert!((score.levels[0] - 1.0).abs() < 1e-9 && score.l0_depth == 4 && score.greatest() >= 1.0);
    let excess = 256 + 60 - 64;
    let expected = f64::from(256 + 60) + f64::from(excess) * (1.0 + 600.0 / 316.0);
    assert!(
        (score.pending_bytes as f64 / MIB as f64 - expected).abs() < 1.0,
        "{}",
        score.pending_bytes / MIB
    );
}
