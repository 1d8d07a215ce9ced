//! Power loss at any moment, each sector on its own: what was durable is there, what is there is a
//! prefix of what was written, nothing that was undone comes back, and no honest crash is called damage.

use proptest::prelude::*;

use super::disk::{Disk, Outcome};
use super::{LOG, OLD, dir, path_of, read_reused_bytes};
use crate::{LogWriter, WriteFailure};

#[derive(Clone, Debug)]
enum Step {
    /// Write a group of records of these lengths, the last of them from where it lies if it is `lent`; the calls this makes go
    /// like this, behind those of `good` that do.
    Group {
        lens: Vec<usize>,
        lent: bool,
        good: usize,
        writes: Vec<Outcome>,
        cut: Outcome,
        undo_sync: Outcome,
    },
    Sync(Outcome),
}

fn outcome(odds_good: u32) -> impl Strategy<Value = Outcome> {
    prop_oneof![
        odds_good => Just(Outcome::Good),
        1 => prop_oneof![Just(usize::MAX), 0usize..400].prop_map(Outcome::Bad),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let lens = prop::collection::vec(prop_oneof![Just(11usize), 0usize..150], 1..5);
    let writes = (outcome(3), outcome(6)).prop_map(|(first, zeros)| vec![first, zeros]);
    prop_oneof![
        3 => (lens, any::<bool>(), 0..2_usize, writes, outcome(2), outcome(10)).prop_map(
            |(lens, lent, good, writes, cut, undo_sync)| Step::Group { lens, lent, good, writes, cut, undo_sync },
        ),
        1 => outcome(20).prop_map(Step::Sync),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]
    #[test]
    fn what_a_power_loss_leaves_is_a_prefix_with_all_that_was_durable(
        steps in prop::collection::vec(step(), 0..14),
        allocate in prop_oneof![Just(0u64), 100u64..4_000],
        fragment_bytes_max in prop_oneof![Just(1 << 20), 5usize..60],
        sector in prop_oneof![Just(512usize), Just(64), Just(16)],
        old in prop::option::of(prop::collection::vec(prop_oneof![Just(11usize), 0usize..150], 0..30)),
        picks in any::<u64>(),
    ) {
        let disk = Disk::default();
        let reused = old.is_some();
        let mut writer = match old {
            None => LogWriter::create(&disk, dir(), LOG, None, allocate).expect("a sound disk"),
            Some(lens) => {
                let mut writer = LogWriter::create(&disk, dir(), OLD, None, allocate).expect("a sound disk");
                writer.fragment_bytes_max = fragment_bytes_max;
                for (index, len) in lens.into_iter().enumerate() {
                    writer.stage(index as u64, &[&vec![index as u8; len]]);
                    writer.write().expect("a sound disk");
                    // Of the next record, which says how much is durable.
                    writer.syncer().sync().expect("a sound disk");
                }
                disk.file(&path_of(OLD)).remember_versions();
                LogWriter::recycle(&disk, dir(), LOG, None, OLD.number).expect("a sound disk")
            }
        };
        writer.fragment_bytes_max = fragment_bytes_max;
        let syncer = writer.syncer();
        let file = disk.file(&path_of(LOG));
        // As `create` wrote it: the versions start behind that. Of an old log they start before its header is written over.
        if !reused {
            file.remember_versions();
        }
        file.plan_writes(&[]);
        let mut written: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut durable = None;
        let mut in_doubt = Vec::new();
        let mut tag = 0;
        for step in steps {
            match step {
                Step::Sync(outcome) => {
                    file.plan_syncs(&[outcome]);
                    if syncer.sync().is_ok() {
                        durable = Some(written.len());
                    }
                }
                Step::Group { lens, lent, good, writes, cut, undo_sync } => {
                    let failing = writes[0] != Outcome::Good;
                    let good = if lent { good } else { 0 };
                    let planned = [&vec![Outcome::Good; good][..], &writes].concat();
                    file.plan_writes(if failing { &planned } else { &[] });
                    file.plan_cuts(&[cut]);
                    file.plan_syncs(&[undo_sync]);
                    let mut group = Vec::new();
                    for len in lens {
                        tag += 1;
                        group.push((tag, vec![tag as u8; len]));
                    }
                    let last = group.last().filter(|_| lent);
                    for (tag, payload) in &group[..group.len() - usize::from(lent)] {
                        writer.stage(*tag, &[payload]);
                    }
                    let outcome = match last {
                        Some((tag, payload)) => writer.write_lending(*tag, payload),
                        None => writer.write(),
                    };
                    match outcome {
                        Ok(_) => written.extend(group),
                        Err(WriteFailure::Undone(_)) => durable = Some(written.len()),
                        Err(WriteFailure::Unknown(_)) => in_doubt = group,
                        Err(WriteFailure::Refused(_)) => {}
                    }
                    file.plan_syncs(&[]);
                }
            }
        }
        // Records that may appear: those written, then those in doubt.
        let possible: Vec<_> = written.into_iter().chain(in_doubt).collect();
        let mut state = picks;
        for _ in 0..6 {
            let image = file.power_loss(sector, |n| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as usize % n
            });
            let (found, tail) = match read_reused_bytes(&image) {
                Ok(read) => read,
                Err(error) => return Err(TestCaseError::fail(format!("an honest crash: {error}"))),
            };
            let found: Vec<_> = found.into_iter().map(|record| (record.tag, record.payload)).collect();
            prop_assert!(found.len() >= durable.unwrap_or(0), "a durable record is gone");
            prop_assert!(durable.is_none() || tail.valid_len >= 64, "a durable header is gone");
            prop_assert_eq!(&found[..], &possible[..found.len().min(possible.len())]);
            prop_assert!(tail.durable_seen <= syncer.durable());
        }
        // A kill without a power loss leaves everything that was written.
        let (found, _) = read_reused_bytes(&file.bytes()).expect("an honest kill");
        let found: Vec<_> = found.into_iter().map(|record| (record.tag, record.payload)).collect();
        prop_assert_eq!(&found[..], &possible[..found.len().min(possible.len())]);
    }
}
