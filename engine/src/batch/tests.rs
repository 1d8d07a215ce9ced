use super::*;

/// The hex bytes of the example in FORMAT.md whose first line starts with `first`.
fn example(first: &str) -> Vec<u8> {
    let text = include_str!("../../FORMAT.md");
    let lines = text.lines().skip_while(|line| !line.starts_with(first)).take_while(|line| *line != "```");
    lines
        .flat_map(|line| line.split("  ").next().unwrap_or_default().split_whitespace())
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect()
}

#[test]
fn the_batch_in_the_format_is_what_we_write_and_read() {
    let bytes = example("01 03");
    let ops = [
        Op { keyspace: KeyspaceId(3), kind: Kind::Put, key: b"k", value: b"v1" },
        Op { keyspace: KeyspaceId(3), kind: Kind::Delete, key: b"old", value: b"" },
    ];
    let mut written = Ops::default();
    for op in ops {
        written.push(op).unwrap();
    }
    assert_eq!(written.bytes(), bytes);
    let mut decoder = Decoder::new(&bytes);
    let read: Vec<Op<'_>> = std::iter::from_fn(|| decode_op(&mut decoder).unwrap()).collect();
    assert_eq!(read, ops);
}

#[test]
fn the_options_in_the_format_are_what_we_write_and_read() {
    use crate::options::KeyspaceOptions;
    let options = KeyspaceOptions::default().with_merge_operator("max");
    assert_eq!(options.encode(), example("80 20"));
    assert_eq!(KeyspaceOptions::decode(&options.encode()), Ok(options));
}

proptest::proptest! {
    /// Any bytes decode to operations or an error, never a panic; what decodes encodes to the same.
    #[test]
    fn any_bytes_are_operations_or_an_error(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        let mut decoder = Decoder::new(&bytes);
        while let Ok(Some(op)) = decode_op(&mut decoder) {
            let mut again = Ops::default();
            again.push(op).unwrap();
            proptest::prop_assert_eq!(again.iter().next(), Some(op));
        }
        let _ = crate::options::KeyspaceOptions::decode(&bytes);
    }
}
