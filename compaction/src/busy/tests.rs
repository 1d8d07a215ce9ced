use std::sync::Arc;

use esker_manifest::{TableHandle, Tree};

use super::*;
use crate::plan::Reason;
use crate::settings::Settings;
use crate::testing::described;

fn table(number: u64, smallest: &str, largest: &str) -> Arc<TableHandle> {
    TableHandle::detached(described(number, smallest, largest))
}

fn plan(keyspace: u32, inputs: Vec<(u8, Vec<Arc<TableHandle>>)>, output_level: u8) -> Plan {
    Plan::new(
        &Tree::default(),
        KeyspaceId(keyspace),
        &Settings::default(),
        inputs,
        output_level,
        Reason::Asked,
    )
}

#[test]
fn tables_and_passed_levels_conflict() {
    let mut busy = Busy::default();
    let first = plan(1, vec![(0, vec![table(9, "c", "f")])], 4);
    let id = busy.start(&first);
    assert!(busy.uses(FileNumber(9)) && !busy.uses(FileNumber(8)));
    assert_eq!(busy.jobs(), 1);

    let beside = |level: u8, to: u8| plan(1, vec![(level, vec![table(8, "a", "d")])], to);
    // Whatever enters levels 1 to 4 over keys c to d conflicts, wherever it comes from and stops.
    for (level, to) in [(0, 4), (0, 1), (0, 6), (1, 2), (2, 2), (3, 4)] {
        assert!(!busy.allows(&beside(level, to)), "L{level} -> L{to}");
    }
    assert!(busy.allows(&beside(4, 5)) && busy.allows(&beside(5, 5)));
    // Other keys, another keyspace.
    assert!(busy.allows(&plan(1, vec![(0, vec![table(8, "a", "b")])], 4)));
    assert!(busy.allows(&plan(2, vec![(0, vec![table(8, "a", "d")])], 4)));
    // The same table never, even where levels do not meet.
    assert!(!busy.allows(&plan(1, vec![(5, vec![table(9, "x", "z")])], 6)));

    busy.end(id);
    assert!(busy.allows(&beside(0, 4)) && busy.allows(&first) && !busy.uses(FileNumber(9)));
    busy.end(id);
    assert_eq!(busy.jobs(), 0, "ending twice does nothing");
}

#[test]
#[should_panic(expected = "two compactions would overlap")]
fn starting_what_is_not_allowed_is_a_mistake() {
    let mut busy = Busy::default();
    busy.start(&plan(1, vec![(0, vec![table(9, "c", "f")])], 4));
    busy.start(&plan(1, vec![(0, vec![table(8, "a", "d")])], 4));
}
