use proptest::prelude::*;

use super::*;
use crate::map::MapStore;
use crate::testing::{assert_block, contents, engine};
use crate::tuple::Fixed;

const CHUNKS_OF: [Chunk; 4] = [Chunk::Packed, Chunk::Elements, Chunk::Of(1), Chunk::Of(3)];

fn open<S: OrderedKv, T: PackField + UnpackField>(store: &S, chunk: Chunk) -> Vector<&S, T> {
    Vector::open(store, &Space::new(&("v",)), chunk).expect("open")
}

#[test]
fn the_example_of_the_format_is_what_is_written() {
    let store = MapStore::new();
    let vector: Vector<_, String> = open(&store, Chunk::Of(2));
    for element in ["a", "b", "c"] {
        vector.push(&element.to_owned()).expect("push");
    }
    assert_block("vector", &store);
}

/// D7 and D8: what an element costs when a thousand lie beside it.
#[test]
fn an_element_costs_its_chunk() {
    let written = |chunk| {
        let store = engine();
        let vector: Vector<_, String> = open(&store, chunk);
        for element in 0..300 {
            vector.push(&format!("element {element:03}")).expect("push");
        }
        let set = vector.set(150, &"changed".to_owned()).expect("set");
        assert!(set.value);
        let slice = vector.slice(149..=151).expect("slice");
        assert_eq!(slice.value, ["element 149", "changed", "element 151"]);
        let removed = vector.swap_remove(10).expect("remove");
        assert_eq!(removed.value.as_deref(), Some("element 010"));
        assert_eq!(vector.get(10).expect("get").as_deref(), Some("element 299"));
        let wrote = removed.cost.keys_written + removed.cost.tombstones_written;
        (set.cost.bytes_written, slice.cost.keys_read, wrote)
    };
    let (packed, keys, _) = written(Chunk::Packed);
    assert!(packed > 300 * 12 && keys == 1, "{packed} bytes, {keys} keys");
    let (single, keys, wrote) = written(Chunk::Elements);
    assert!(single < 40 && keys == 3 && wrote == 2, "{single} bytes, {keys} keys, {wrote} writes");
    let (chunked, keys, wrote) = written(Chunk::Of(50));
    assert!((600..800).contains(&chunked) && keys == 2 && wrote == 2, "{chunked} bytes, {keys}, {wrote}");
}

/// What is reserved for the elements of a value is in proportion to the value, however large an element is.
#[test]
fn a_chunk_reserves_no_more_than_its_value_has() {
    let store = MapStore::new();
    for chunk in [Chunk::Packed, Chunk::Of(u32::MAX)] {
        let space = Space::new(&(chunk.size(),));
        let vector: Vector<_, Fixed<[u8; 255]>> = Vector::open(&store, &space, chunk).expect("open");
        for byte in 1..=3 {
            vector.push(&Fixed([byte; 255])).expect("push");
        }
        let value = store.get(&vector.key(0)).expect("get").value.expect("a chunk");
        let elements = vector.elements(b"", &value).expect("elements");
        assert_eq!(elements.len(), 3);
        assert!(elements.capacity() * 255 <= value.len(), "{} for {}", elements.capacity(), value.len());
    }
}

#[test]
fn bad_sizes_and_data_are_clear_errors() {
    let store = MapStore::new();
    let vector: Vector<_, u64> = open(&store, Chunk::Of(2));
    for chunk in [Chunk::Of(0), Chunk::Of(3), Chunk::Packed] {
        let other = Vector::<_, u64>::open(&store, &Space::new(&("v",)), chunk);
        assert!(matches!(other.map(|_| ()), Err(Error::BadInput { what: "size of chunks", .. })));
    }
    for value in [&b""[..], b"\x02text\0", b"\x14\x14\x14", b"\x15"] {
        let done = store.update(|tx| {
            tx.put(&vector.key(0), value);
            Ok(())
        });
        done.expect("commit");
        assert!(matches!(vector.get(0), Err(Error::Foreign { layout: "vector", .. })), "{value:x?}");
        assert!(matches!(vector.len(), Err(Error::Foreign { .. })) && vector.push(&1).is_err());
    }
    assert!(vector.slice(5..5).expect("an empty range").value.is_empty());
    for (chunk, number) in [(Chunk::Elements, u64::MAX), (Chunk::Of(2), u64::MAX / 2), (Chunk::Packed, 1)] {
        let store = MapStore::new();
        let vector: Vector<_, u64> = open(&store, chunk);
        let elements: &[u64] = if chunk == Chunk::Elements { &[1] } else { &[1, 2] };
        store.put(&vector.key(number), &pack(elements)).expect("put");
        let before = contents(&store);
        assert!(matches!(vector.len(), Err(Error::Foreign { .. })), "{chunk:?}");
        assert!(matches!(vector.push(&1), Err(Error::Foreign { .. })), "{chunk:?}");
        assert!(matches!(vector.slice(..), Err(Error::Foreign { .. })), "{chunk:?}");
        assert!(matches!(vector.swap_remove(0), Err(Error::Foreign { .. })), "{chunk:?}");
        assert_eq!(contents(&store), before, "{chunk:?}");
    }
    // As many elements as there are numbers: all can be read, and there is no room for one more.
    for (chunk, number) in [(Chunk::Elements, u64::MAX - 1), (Chunk::Of(2), u64::MAX / 2)] {
        let store = MapStore::new();
        let vector: Vector<_, u64> = open(&store, chunk);
        store.put(&vector.key(number), &pack(&[7u64][..])).expect("put");
        let before = contents(&store);
        assert_eq!(vector.len().expect("len"), u64::MAX, "{chunk:?}");
        assert_eq!(vector.slice(..).expect("slice").value, [7], "{chunk:?}");
        assert_eq!(vector.slice(u64::MAX - 1..).expect("slice").value, [7], "{chunk:?}");
        assert!(vector.slice(u64::MAX..).expect("slice").value.is_empty(), "{chunk:?}");
        assert!(matches!(vector.push(&1), Err(Error::Foreign { .. })), "{chunk:?}");
        assert_eq!(contents(&store), before, "{chunk:?}");
    }
}

#[derive(Clone, Debug)]
enum Op {
    Push(i64),
    Set(u64, i64),
    Truncate(u64),
    SwapRemove(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => any::<i64>().prop_map(Op::Push),
        2 => (0..12u64, any::<i64>()).prop_map(|(index, value)| Op::Set(index, value)),
        1 => (0..12u64).prop_map(Op::Truncate),
        3 => (0..12u64).prop_map(Op::SwapRemove),
    ]
}

fn equals_the_model<S: OrderedKv>(store: &S, chunk: Chunk, ops: &[Op]) {
    let vector: Vector<_, i64> = open(store, chunk);
    let mut model: Vec<i64> = Vec::new();
    for op in ops {
        let index = |index: u64| usize::try_from(index).expect("small");
        match *op {
            Op::Push(value) => {
                assert_eq!(vector.push(&value).expect("push").value, model.len() as u64);
                model.push(value);
            }
            Op::Set(at, value) => {
                let hit = model.get_mut(index(at)).map(|element| *element = value).is_some();
                assert_eq!(vector.set(at, &value).expect("set").value, hit);
            }
            Op::Truncate(len) => {
                vector.truncate(len).expect("truncate");
                model.truncate(index(len));
            }
            Op::SwapRemove(at) => {
                let removed = (index(at) < model.len()).then(|| model.swap_remove(index(at)));
                assert_eq!(vector.swap_remove(at).expect("remove").value, removed);
            }
        }
        assert_eq!(vector.len().expect("len"), model.len() as u64);
    }
    assert_eq!(vector.slice(..).expect("slice").value, model);
    for at in 0..=model.len() {
        assert_eq!(vector.get(at as u64).expect("get"), model.get(at).copied());
        let tail = vector.slice(at as u64..at as u64 + 2).expect("slice").value;
        assert_eq!(tail, model[at..].iter().copied().take(2).collect::<Vec<_>>());
    }
    let size = usize::try_from(vector.size).unwrap_or(usize::MAX);
    assert_eq!(contents(store).len(), 1 + model.len().div_ceil(size), "nothing is left over");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn equals_a_vector_in_memory(ops in prop::collection::vec(op(), 0..40)) {
        for chunk in CHUNKS_OF {
            equals_the_model(&MapStore::new(), chunk, &ops);
            equals_the_model(&engine(), chunk, &ops);
        }
    }
}
