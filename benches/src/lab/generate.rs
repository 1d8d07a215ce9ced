//! The operations of the article's protocol, generated from a seed or derived from a real network.
//!
//! Writes: every user gets a random number of distinct friends, uniform on 1…n, in random order (the
//! article does not say how degrees are distributed). Checks: for each user a list about as long as its
//! degree, friends and absent ids in turn. Deletes: all friends, shuffled. As in the article's sample,
//! users are numbered from 0, friends from 1 to n, and absent ids from 10,800.

use std::collections::BTreeSet;

use super::edges::Graph;

/// The first absent id in the article's sample.
const ABSENT_FIRST: u32 = 10_800;

/// Friends of a user that is there beforehand.
const AMBIENT_DEGREE: u32 = 50;

/// What happens to one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserPlan {
    /// The user, an index of [`Plan::names`].
    pub user: u32,
    /// Friends to add, in order.
    pub add: Vec<u32>,
    /// Whom to ask for, and whether it is a friend; yes and no in turn.
    pub check: Vec<(u32, bool)>,
    /// Friends to remove, in order.
    pub remove: Vec<u32>,
}

/// The operations of one run, the same for every layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Ids as text.
    pub names: Vec<String>,
    /// User by user.
    pub users: Vec<UserPlan>,
    /// Rows that are there before anything is measured, of users nobody asks for.
    pub ambient: Vec<(u32, Vec<u32>)>,
}

impl Plan {
    /// How many friends are added.
    pub fn edges(&self) -> u64 {
        self.users.iter().map(|user| user.add.len() as u64).sum()
    }
}

/// The operations for a network of `n` users, in a store that already holds about `ambient` cells.
///
/// ```
/// use esker_bench::lab::generate::network;
/// let plan = network(5, 0, &mut fastrand::Rng::with_seed(1));
/// assert_eq!(plan.users.len(), 5);
/// for user in &plan.users {
///     let degree = user.add.len();
///     assert!((1..=5).contains(&degree) && user.remove.len() == degree);
///     assert_eq!(user.check.len(), degree.div_ceil(2) * 2);
/// }
/// ```
pub fn network(n: u32, ambient: u32, random: &mut fastrand::Rng) -> Plan {
    let absent = ABSENT_FIRST.max(n + 1);
    let others = absent + n + 1..absent + n + 1 + ambient.div_ceil(AMBIENT_DEGREE);
    let names = (0..others.end).map(|id| id.to_string()).collect();
    let ambient = others.map(|user| (user, (1..=AMBIENT_DEGREE).collect())).collect();
    let users = (0..n)
        .map(|user| {
            let degree = random.u32(1..=n) as usize;
            let mut friends = random.choose_multiple(1..=n, degree);
            random.shuffle(&mut friends);
            plan_user(user, friends, |i| absent + i, random)
        })
        .collect();
    Plan { names, users, ambient }
}

/// The operations on the network `graph`, on as many of its users, drawn at random, as keep the sum of
/// `weight` over their degrees within `budget`. If no user does, on the one with the fewest friends, and on as many
/// of these as do.
pub fn from_graph(
    graph: &Graph,
    weight: impl Fn(u64) -> u64,
    budget: u64,
    random: &mut fastrand::Rng,
) -> Plan {
    let weight = |friends: &[u32]| weight(friends.len() as u64);
    let mut rows: Vec<(u32, &[u32])> =
        graph.rows.iter().map(|(user, friends)| (*user, friends.as_slice())).collect();
    let fewest = rows.iter().copied().min_by_key(|(_, friends)| friends.len());
    if rows.iter().fold(0u64, |sum, (_, friends)| sum.saturating_add(weight(friends))) > budget {
        random.shuffle(&mut rows);
        let mut left = budget;
        rows.retain(|(_, friends)| {
            let weight = weight(friends);
            let fits = weight <= left;
            left -= if fits { weight } else { 0 };
            fits
        });
    }
    if let (true, Some((user, friends))) = (rows.is_empty(), fewest) {
        let fitting = (1..=friends.len()).take_while(|count| weight(&friends[..*count]) <= budget).count();
        rows.push((user, &friends[..fitting]));
    }
    let mut names = graph.names.clone();
    let taken: BTreeSet<&str> = graph.names.iter().map(String::as_str).collect();
    let longest = rows.iter().map(|(_, friends)| friends.len()).max().unwrap_or(0);
    let absent = names.len();
    names.extend(
        (ABSENT_FIRST..)
            .map(|id| id.to_string())
            .filter(|name| !taken.contains(name.as_str()))
            .take(longest),
    );
    #[expect(clippy::cast_possible_truncation, reason = "a graph has fewer than 2^32 ids")]
    let users = rows
        .into_iter()
        .map(|(user, friends)| plan_user(user, friends.to_vec(), |i| absent as u32 + i, random))
        .collect();
    Plan { names, users, ambient: Vec::new() }
}

fn plan_user(
    user: u32,
    add: Vec<u32>,
    absent: impl Fn(u32) -> u32,
    random: &mut fastrand::Rng,
) -> UserPlan {
    let mut present = random.choose_multiple(add.iter().copied(), add.len().div_ceil(2));
    random.shuffle(&mut present);
    let check = (0..).zip(present).flat_map(|(i, friend)| [(friend, true), (absent(i), false)]).collect();
    let mut remove = add.clone();
    random.shuffle(&mut remove);
    UserPlan { user, add, check, remove }
}
