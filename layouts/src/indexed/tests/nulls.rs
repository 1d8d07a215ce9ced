//! Values of null, which are never unique.

use super::*;
use crate::tuple::Desc;

/// A null in a descending field, however often it is turned round, is as null as any: it excludes nobody, and comes where
/// its order says.
#[test]
fn nulls_in_descending_fields_are_never_unique() {
    type Mail = Desc<Option<String>>;
    let once = || {
        Index::unique("once", 1, |_: &(u64,), row| {
            let (mail, ..): User = unpack(row)?;
            Ok(vec![Entry::new(&(Desc(mail),)).including(b"once")])
        })
    };
    let thrice = || {
        Index::unique("thrice", 2, |_: &(u64,), row| {
            let (mail, city, _): User = unpack(row)?;
            Ok(vec![Entry::new(&(city, Desc(Desc(Desc(mail)))))])
        })
    };
    let store = engine();
    let table = open(&store, vec![once(), thrice()]);
    for (id, mail) in [(1, "a@x"), (2, ""), (3, "b@x"), (4, "")] {
        table.put(&(id,), &user(mail, "Oslo", 1)).expect("nulls do not exclude each other");
    }
    let refused = table.put(&(5,), &user("a@x", "Rome", 1));
    assert!(matches!(refused, Err(Error::Duplicate { .. })), "a value does: {refused:?}");
    let in_order = || {
        // From the greatest down, and null last.
        assert_eq!(ids(&table, "once", &()), [3, 1, 2, 4]);
        assert_eq!(ids(&table, "thrice", &("Oslo",)), [3, 1, 2, 4]);
        assert_eq!(ids(&table, "once", &(Desc(None::<String>),)), [2, 4]);
        assert_eq!(ids(&table, "thrice", &("Oslo", Desc(Desc(Desc(None::<String>))))), [2, 4]);
        let hits = table.view().and_then(|view| view.lookup("once", &(), all())).expect("lookup");
        let fields: Vec<Mail> =
            hits.iter().map(|hit| hit.fields::<(Mail,)>().expect("its type").0).collect();
        let mails = [Some("b@x"), Some("a@x"), None, None];
        assert_eq!(fields, mails.map(|mail| Desc(mail.map(str::to_owned))));
        assert!(hits.iter().all(|hit| hit.included.as_ref() == b"once"));
        assert_verifies(&table);
    };
    in_order();
    let before = contents(&store);
    for name in ["once", "thrice"] {
        table.disable(name).expect("disable");
        table.rebuild(name).expect("rebuild");
        assert_eq!(table.build(name, 2).expect("build"), State::Ready, "no null is a violation");
        assert_eq!(table.clean(name, 2).expect("clean"), 0);
    }
    assert_eq!(contents(&store), before);
    in_order();
    assert!(table.delete(&(2,)).expect("delete").value);
    assert_eq!(ids(&table, "once", &(Desc(None::<String>),)), [4], "each has an entry of its own");
    table.put(&(4,), &user("c@x", "Oslo", 1)).expect("put");
    assert_eq!(ids(&table, "once", &()), [4, 3, 1]);
    assert_verifies(&table);
}
