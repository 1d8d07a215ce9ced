use super::*;

#[test]
fn ordered_writes_are_moved() {
    let workload = Workload {
        keys: 5_000_000,
        entry_bytes: 116,
        order: Order::Ascending,
        user_bytes: 580_000_000,
        write_rate: 60e6,
        memtable_bytes: 64 << 20,
        workers: 1,
        merge_rate: 300e6,
        l0_depth_stop: 20,
    };
    let report = simulate(&Settings::default(), &workload, |_, _| {});
    assert_eq!(report.compacted_bytes, 0);
}
