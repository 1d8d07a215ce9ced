//! Edge lists: real networks from a file.
//!
//! Text, two ids a line, separated by tabs or blanks; `#` starts a comment; plain or gzip. A byte
//! order mark is left out, a repeated edge counts once; a self-loop stays, because the article's own data has them.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::io::{BufRead, Read};
use std::path::Path;

use super::{LabError, Result, files};

/// The longest line, in bytes.
const LINE_BYTES_MAX: u64 = 4096;

/// A directed network: who reads whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// The ids' names; an id is an index.
    pub names: Vec<String>,
    /// Users in order of first appearance, each with the ids it reads, in file order.
    pub rows: Vec<(u32, Vec<u32>)>,
    /// Edges, without the repeated ones.
    pub edges: u64,
    /// Repeated edges left out.
    pub repeated: u64,
    /// Edges from a user to itself.
    pub self_loops: u64,
}

/// Read the edge list in `file`.
pub fn read(file: &Path) -> Result<Graph> {
    parse(files::open_text(file)?, file)
}

/// Read an edge list from `text`; `file` names it in errors.
///
/// ```
/// use esker_bench::lab::edges::parse;
/// let graph = parse(&b"# a b\n1\t2\n1 3\n1\t2\n"[..], "small.txt".as_ref())?;
/// assert_eq!((graph.edges, graph.repeated, graph.names.len()), (2, 1, 3));
/// let error = parse(&b"1 2\n1 2 3\n"[..], "small.txt".as_ref()).unwrap_err().to_string();
/// assert!(error.starts_with("small.txt, line 2: 3 ids instead of two"));
/// # Ok::<(), esker_bench::lab::LabError>(())
/// ```
pub fn parse(mut text: impl BufRead, file: &Path) -> Result<Graph> {
    let mut graph = Graph::default();
    let mut ids = BTreeMap::new();
    let mut places = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut line = Vec::new();
    for number in 1.. {
        let bad = |what: String| LabError::BadEdge { file: file.to_path_buf(), line: number, what };
        line.clear();
        let read = text.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line);
        let len = read.map_err(|source| LabError::File { op: "read", file: file.to_path_buf(), source })?;
        if len == 0 {
            break;
        }
        if len as u64 > LINE_BYTES_MAX {
            return Err(bad(format!("longer than {LINE_BYTES_MAX} bytes")));
        }
        let content = std::str::from_utf8(&line).map_err(|_| bad("not UTF-8".into()))?;
        let content = content.trim_start_matches('\u{feff}').split('#').next().unwrap_or_default();
        let words: Vec<&str> = content.split_whitespace().collect();
        let (from, to) = match words[..] {
            [] => continue,
            [from, to] => (from, to),
            [_] => return Err(bad("one id instead of two".into())),
            _ => return Err(bad(format!("{} ids instead of two", words.len()))),
        };
        let (from, to) = (intern(from, &mut ids, &mut graph.names), intern(to, &mut ids, &mut graph.names));
        if !seen.insert((from, to)) {
            graph.repeated += 1;
            continue;
        }
        graph.edges += 1;
        graph.self_loops += u64::from(from == to);
        let place = *places.entry(from).or_insert_with(|| {
            graph.rows.push((from, Vec::new()));
            graph.rows.len() - 1
        });
        graph.rows[place].1.push(to);
    }
    Ok(graph)
}

/// The id of `name`, a new one if need be.
fn intern(name: &str, ids: &mut BTreeMap<String, u32>, names: &mut Vec<String>) -> u32 {
    if let Some(id) = ids.get(name) {
        return *id;
    }
    let id = u32::try_from(names.len()).expect("more than 2^32 ids do not fit memory");
    names.push(name.to_owned());
    ids.insert(name.to_owned(), id);
    id
}
