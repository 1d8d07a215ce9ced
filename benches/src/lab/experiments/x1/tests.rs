use super::*;

/// A user with so many friends that the cube of their number is beyond 64 bits costs more than any budget, not little, and
/// does not end the run.
#[test]
fn a_hub_beyond_64_bits_is_over_any_budget() {
    let hub = (0, (0..1 << 22).collect::<Vec<u32>>());
    let graph = Graph { rows: vec![hub.clone(), (1, vec![2, 3]), hub], ..Graph::default() };
    for scale in [Scale::Tiny, Scale::Smoke, Scale::Desk, Scale::Large] {
        let plan = from_graph(&graph, cubed, budget(scale).cubes, &mut fastrand::Rng::with_seed(1));
        let users: Vec<(u32, usize)> = plan.users.iter().map(|user| (user.user, user.add.len())).collect();
        assert_eq!(users, [(1, 2)], "{scale}");
    }
    assert_eq!((squared(1 << 22), squared(1 << 32), cubed(1 << 22)), (1 << 44, u64::MAX, u64::MAX));
}
