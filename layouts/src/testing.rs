//! What the layouts' tests share: an engine without a disk, and the examples of FORMAT.md.

use std::fmt::Write;

use crate::engine::EngineStore;
use crate::kv::{KeyRange, KvRead, OrderedKv, ScanOptions};
use crate::tuple::Element;
use crate::tuple::tests::format_block;

/// The engine without a disk.
pub(crate) fn engine() -> EngineStore {
    let env = esker::vfs::Env::memory().expect("an environment in memory");
    EngineStore::build(esker::Database::builder("/layouts").env(env), "data").expect("open")
}

/// Two digits a byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string");
        text
    })
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().collect();
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).expect("ASCII");
        u8::from_str_radix(pair, 16).expect("two hexadecimal digits")
    };
    digits.chunks(2).map(byte).collect()
}

/// Every key and value of a store.
pub(crate) fn contents<S: OrderedKv>(store: &S) -> Vec<(Vec<u8>, Vec<u8>)> {
    let read = store.read().expect("snapshot");
    let rows = read.scan(KeyRange::all(), ScanOptions::new()).expect("scan");
    rows.map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())).expect("a row")).collect()
}

/// The store holds exactly the block `name` of FORMAT.md, whose lines are a key, a value (`-` if empty)
/// and the key as a tuple; and each key decodes to its tuple.
pub(crate) fn assert_block<S: OrderedKv>(name: &str, store: &S) {
    let shown: String = contents(store).iter().fold(String::new(), |mut text, (key, value)| {
        let value = if value.is_empty() { "-".to_owned() } else { hex(value) };
        let tuple = Element::unpack_all(key).map_or("?".to_owned(), |t| Element::Tuple(t).to_string());
        writeln!(text, "{}  {value}  {tuple}", hex(key)).expect("writing to a string");
        text
    });
    let lines = format_block(name);
    assert_eq!(shown.lines().collect::<Vec<_>>(), lines, "the store holds:\n{shown}");
    for line in lines {
        let (key, _) = line.split_once("  ").expect("a key and more");
        let (_, tuple) = line.rsplit_once("  ").expect("a tuple");
        let key = from_hex(key);
        let fields = Element::unpack_all(&key).expect(line);
        assert_eq!(Element::Tuple(fields).to_string(), tuple);
    }
}
