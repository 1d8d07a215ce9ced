//! The same facts in every layout of followers, in wide rows and in tall tables: how long their keys are, and
//! what a fact takes on disk.

use esker_layouts::followers::{HoleFilling, Layout};
use esker_layouts::kv::OrderedKv;
use esker_layouts::tall::TallTable;
use esker_layouts::tuple::Space;
use esker_layouts::wide::{RowChange, WideTable};

use super::{Case, Shape, Sizes};
use crate::lab::experiments::samples::failed;
use crate::lab::experiments::weighed::{Weighed, at_rest, for_loads, weigh};
use crate::lab::store::Store;
use crate::lab::study::Study;
use crate::lab::{LabOptions, OpenLayout, Result};

/// Bytes of an id.
pub(super) const LENGTH: usize = 16;
/// Family names, short and long.
const FAMILIES: [(&str, &str); 2] = [
    ("wide row, family name of 1 byte", "f"),
    (
        "wide row, family name of 64 bytes",
        "the-people-whose-messages-this-user-has-chosen-to-read-every-day",
    ),
];
const LAYOUTS: [(Layout, &str); 6] = [
    (Layout::Default(HoleFilling::MoveLast), "V1, numbered columns"),
    (Layout::Count(HoleFilling::MoveLast), "V2, and a count"),
    (Layout::Column, "V3, columns named by friend"),
    (Layout::Row, "V4, user.friend"),
    (Layout::Hash, "V5, digests"),
    (Layout::Relational, "table and index"),
];

/// What the facts weigh, by layout.
pub(super) fn weigh_layouts<S: Store>(
    store: &S,
    layouts: &impl OpenLayout<S::Kv>,
    sizes: &Sizes,
    study: &mut Study,
    options: &LabOptions,
) -> Result<Vec<(&'static str, Weighed)>> {
    let case = Case::new(Shape::Numbered, LENGTH, sizes, options);
    let facts = sizes.facts();
    let weighed = |load: &dyn Fn(&S::Kv) -> esker_layouts::Result<()>| -> Result<Weighed> {
        let kv = store.open_as(&for_loads()).map_err(failed("open a store"))?;
        load(&kv).map_err(failed("load the layout"))?;
        weigh(&at_rest(store, kv, &for_loads())?, |_, _| ())
    };
    let mut all = Vec::new();
    for (layout, name) in LAYOUTS {
        let found = weighed(&|kv| {
            let layout = layouts.open(kv, layout)?;
            each_row(&case, |user, friends| layout.load(user, friends).map(|_| ()))
        })?;
        let keys = match layout {
            Layout::Count(_) => facts + sizes.users as u64,
            Layout::Relational => 2 * facts + 1,
            _ => facts,
        };
        let formula =
            "a key a fact; a count a user in V2; two keys, and the last row number, with an index";
        study.compare(&format!("keys of {name}"), formula, &found.keys, &keys);
        all.push((name, found));
    }
    let mut families = Vec::new();
    for (name, family) in FAMILIES {
        let found = weighed(&|kv| wide(kv, &case, family))?;
        families.push((found.keys, found.key_bytes - family.len() as u64));
        all.push((name, found));
    }
    let formula = "the family's name is in one key, whatever its length: cells have its number";
    study.compare("families", formula, &families[1], &families[0]);
    all.push(("tall table", weighed(&|kv| tall(kv, &case))?));
    Ok(all)
}

/// Each user with its friends.
fn each_row(
    case: &Case<'_>,
    mut load: impl FnMut(&str, &[&str]) -> esker_layouts::Result<()>,
) -> esker_layouts::Result<()> {
    case.friends.iter().enumerate().try_for_each(|(user, friends)| {
        let friends: Vec<&str> = friends.iter().map(|friend| case.ids[*friend].as_str()).collect();
        load(&case.ids[user], &friends)
    })
}

fn wide<K: OrderedKv>(kv: &K, case: &Case<'_>, family: &str) -> esker_layouts::Result<()> {
    let table = WideTable::open(kv, &Space::new(&("w",)), &[family])?;
    each_row(case, |user, friends| {
        let change = friends
            .iter()
            .fold(RowChange::new(), |change, friend| change.put(family, friend.as_bytes(), b"1"));
        table.apply(user.as_bytes(), &change).map(|_| ())
    })
}

fn tall<K: OrderedKv>(kv: &K, case: &Case<'_>) -> esker_layouts::Result<()> {
    let table: TallTable<&K, (String, String)> = TallTable::open(kv, &Space::new(&("t",)))?;
    each_row(case, |user, friends| {
        let put = |tx: &mut K::Tx<'_>| {
            friends.iter().try_for_each(|f| table.put_in(tx, &(user.to_owned(), (*f).to_owned()), b"1"))
        };
        kv.update(put).map(|_| ())
    })
}
