use super::*;
use crate::testing::described;
use esker_base::table_meta::TableMeta;

/// A table of `keyspace` from a to z with ten entries, `point_tombstones` of which are tombstones.
fn table(number: u64, keyspace: KeyspaceId, point_tombstones: u64) -> Arc<TableHandle> {
    TableHandle::detached(TableMeta {
        keyspace,
        file_bytes: 1000,
        smallest_seqno: SeqNo(number),
        largest_seqno: SeqNo(number),
        entries: 10,
        point_tombstones,
        ..described(number, "a", "z")
    })
}

/// Garbage can wait: a level that is too deep cannot, whichever keyspace it is in and whatever runs in others.
#[test]
fn a_full_level_goes_before_the_garbage_of_a_more_urgent_keyspace() {
    let [deeper, deep] = [KeyspaceId(1), KeyspaceId(2)];
    let settings = Settings { l0_tables_trigger: 2, l0_tables_trigger_loaded: 2, ..Settings::default() };
    let level0 = |keyspace, numbers: std::ops::Range<u64>| {
        numbers.map(move |number| (0, table(number, keyspace, 0))).collect::<Vec<_>>()
    };
    // Its level 0 is being merged into level 5; level 6 has garbage.
    let mut tables = level0(deeper, 10..16);
    tables.push((5, table(2, deeper, 0)));
    let merging = Tree::build(tables.clone());
    let mut busy = Busy::default();
    let plan = pick(&merging, deeper, &settings, &busy, SeqNo::MAX, Load::Rested).expect("it is deep");
    assert_eq!(plan.from_level(), 0);
    busy.start(&plan);
    tables.push((6, table(1, deeper, 9)));
    let (first, second) = (Tree::build(tables), Tree::build(level0(deep, 20..23)));
    let pick_where = |may_clean_up: bool, busy: &Busy| {
        let trees = [(deeper, &first), (deep, &second)];
        let candidate = |(keyspace, tree)| Candidate { keyspace, tree, load: Load::Rested, may_clean_up };
        pick_among(trees.map(candidate), &settings, busy, SeqNo::MAX)
    };
    let pick = |busy: &Busy| pick_where(true, busy);

    let plan = pick(&busy).expect("there is work");
    assert!(plan.keyspace == deep && matches!(plan.reason, Reason::Level0 { .. }), "{plan}");
    busy.start(&plan);
    assert!(pick_where(false, &busy).is_none(), "garbage is left where nobody may clean up");
    let plan = pick(&busy).expect("there is garbage");
    assert!(plan.keyspace == deeper && matches!(plan.reason, Reason::Garbage { .. }), "{plan}");
    busy.start(&plan);
    assert!(pick(&busy).is_none());
}

/// Whatever is in the way of many tables full of tombstones, a pick answers.
#[test]
fn twenty_thousand_tables_of_garbage_that_a_job_holds_are_no_burden() {
    let keyspace = KeyspaceId(1);
    let settings = Settings::default();
    let row = |level: u8, first: u64, point_tombstones| {
        (0u32..20_000).map(move |at| {
            let [from, to] = [at * 1000, at * 1000 + 500].map(u32::to_be_bytes);
            let bounds = described(0, from, to).bounds;
            let meta = table(first + u64::from(at), keyspace, point_tombstones).meta.clone();
            (level, TableHandle::detached(TableMeta { bounds, ..meta }))
        })
    };
    let tree = Tree::build(row(0, 20_000, 9).chain(row(6, 0, 0)));
    let pick = |busy: &Busy| pick(&tree, keyspace, &settings, busy, SeqNo::MAX, Load::Rested);
    assert!(pick(&Busy::default()).is_some());
    // The first and the last table below become one, and so does all that lies between them for other jobs.
    let [first, .., last] = tree.levels[6].tables() else { panic!("there are many") };
    let ends = vec![(6, vec![Arc::clone(first), Arc::clone(last)])];
    let mut busy = Busy::default();
    busy.start(&Plan::new(&tree, keyspace, &settings, ends, 6, Reason::Asked));
    assert!(pick(&busy).is_none());
}
