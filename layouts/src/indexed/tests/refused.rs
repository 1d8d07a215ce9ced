//! Rows older than an index that cannot have them.

use super::*;

#[test]
fn a_row_that_a_new_index_refuses_is_named_and_can_be_replaced_and_deleted() {
    let store = engine();
    let plain = open(&store, Vec::new());
    for id in 1..=4 {
        plain.put(&(id,), &user(&format!("{id}@x"), "Oslo", 1)).expect("put");
    }
    plain.put(&(2,), b"no tuple").expect("put");
    plain.put(&(3,), b"no tuple").expect("put");
    let table = open(&store, vec![mail(), letters()]);
    let error = table.build("mail", 1).expect_err("row 2").to_string();
    assert!(error.contains("row \"(2)\"") && error.contains("replace or delete the row"), "{error}");
    table.put(&(2,), &user("2@x", "Rome", 2)).expect("replaced");
    let error = table.build("mail", 9).expect_err("row 3").to_string();
    assert!(error.contains("row \"(3)\""), "{error}");
    assert!(table.delete(&(3,)).expect("deleted").value);
    assert_eq!(table.build("mail", 9).expect("build"), State::Ready);
    assert_eq!(table.build("letters", 9).expect("build"), State::Ready);
    assert_verifies(&table);
}

#[test]
fn a_row_whose_entry_is_too_long_is_named_and_can_be_replaced_and_deleted() {
    let long = "x".repeat(70_000);
    for (name, index) in [("city", city as fn() -> Index<(u64,)>), ("mail", mail)] {
        let store = engine();
        let plain = open(&store, Vec::new());
        for id in 1..=4 {
            plain.put(&(id,), &user(&format!("{id}@x"), "Oslo", 1)).expect("put");
        }
        plain.put(&(2,), &user(&long, &long, 1)).expect("put");
        plain.put(&(3,), &user(&long, &long, 1)).expect("put");
        let table = open(&store, vec![index()]);
        let error = table.build(name, 9).expect_err("row 2").to_string();
        assert!(error.contains("row \"(2)\"") && error.contains("replace or delete the row"), "{error}");
        table.put(&(2,), &user("2@x", "Rome", 2)).expect("replaced");
        let error = table.build(name, 1).expect_err("row 3").to_string();
        assert!(error.contains("row \"(3)\""), "{error}");
        assert!(table.delete(&(3,)).expect("deleted").value);
        assert_eq!(table.build(name, 9).expect("build"), State::Ready);
        assert_verifies(&table);
    }
}

/// The entry has room for the value, and the list of those that share it, where the row's key comes behind, has not.
#[test]
fn a_duplicate_that_is_too_long_to_be_listed_is_named_and_can_be_replaced_and_deleted() {
    let store = engine();
    let plain = open(&store, Vec::new());
    // Six bytes of the index's and two of the text's go before the store's limit.
    let longest = "x".repeat(store.caps().key_bytes_max - 8);
    for id in 1..=4 {
        plain.put(&(id,), &user(&longest, "Oslo", 1)).expect("put");
    }
    let table = open(&store, vec![mail()]);
    let error = table.build("mail", 9).expect_err("row 2").to_string();
    assert!(error.contains("row \"(2)\"") && error.contains("replace or delete the row"), "{error}");
    table.put(&(2,), &user("2@x", "Rome", 2)).expect("replaced");
    assert_eq!(table.build_step("mail", 1).expect("row 1 has it").value.rows, 1);
    table.put(&(3,), &user("3@x", "Rome", 2)).expect("replaced");
    assert!(table.delete(&(1,)).expect("deleted").value);
    assert_eq!(table.build("mail", 9).expect("build"), State::Ready);
    assert_eq!(ids(&table, "mail", &(longest,)), [4]);
    assert_verifies(&table);
}
