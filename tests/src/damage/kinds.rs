//! What can happen to the bytes of a directory, numbered: every kind of damage, in every place.

use std::fmt;

use esker_base::checksum::key_hash;

use crate::files::Files;
use crate::layout::pieces;

/// What stands where a file's end was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Zeros.
    Zeros,
    /// Bytes that mean nothing.
    Random,
    /// Bytes of another file of the same kind and database, from the same offset on.
    Stale,
}

const FILLS: [Fill; 3] = [Fill::Zeros, Fill::Random, Fill::Stale];
/// Bytes appended to a file at most.
const APPENDED: u64 = 96;

/// One piece of damage. Files are numbers into the list of names, pieces into the list of pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// A bit flips.
    Flip(usize, usize, u8),
    /// A byte becomes another.
    Byte(usize, usize, u8),
    /// A file ends early.
    Cut(usize, usize),
    /// From an offset on, something else stands there, to the same length.
    Tail(usize, usize, Fill),
    /// Something stands behind the end.
    Append(usize, usize, Fill),
    /// A file is gone, or two (equal numbers: one).
    Missing(usize, usize),
    /// Two pieces with checksums of their own change places, as far as their lengths go.
    SwapPieces(usize, usize),
    /// Two files change names.
    SwapFiles(usize, usize),
    /// A file's content stands under another's name as well.
    Copy(usize, usize),
    /// A file of another directory stands in place of the one of its name, or beside all.
    Splice(usize, usize),
    /// All files of one kind or two (bits: tables and blob files, logs, manifest and `CURRENT`) come from another
    /// directory. All three would be another database.
    SpliceKinds(usize, u8),
}

/// A directory with everything that can be done to it.
pub struct Damages {
    files: Files,
    names: Vec<String>,
    /// Where each file's bytes begin in the count of all bytes.
    starts: Vec<u64>,
    bytes: u64,
    pieces: Vec<(usize, std::ops::Range<usize>)>,
    others: Vec<Files>,
    /// Each file of each other directory.
    splices: Vec<(usize, String)>,
    seed: u64,
}

/// Numbers of unordered pairs, each with itself.
fn pairs(n: u64) -> u64 {
    n * (n + 1) / 2
}

/// The `nth` unordered pair.
fn pair(nth: u64) -> (usize, usize) {
    let second = ((8 * nth + 1).isqrt() - 1) / 2;
    (index(nth - pairs(second)), index(second))
}

fn index(n: u64) -> usize {
    usize::try_from(n).expect("an index")
}

impl Damages {
    /// What can be done to `files`; `others` are directories whose files are mixed in.
    pub fn new(files: Files, others: Vec<Files>, seed: u64) -> Damages {
        let names = files.names();
        let mut bytes = 0;
        let mut starts = Vec::new();
        let mut all = Vec::new();
        for (nth, (name, content)) in files.iter().enumerate() {
            starts.push(bytes);
            bytes += content.len() as u64;
            all.extend(pieces(name, content).into_iter().map(|piece| (nth, piece)));
        }
        let mut splices = Vec::new();
        for (nth, other) in others.iter().enumerate() {
            splices.extend(other.names().into_iter().map(|name| (nth, name)));
        }
        Damages { files, names, starts, bytes, pieces: all, others, splices, seed }
    }

    /// How many of each kind there are, in order.
    fn counts(&self) -> [u64; 11] {
        let (files, pieces) = (self.names.len() as u64, self.pieces.len() as u64);
        [
            self.bytes * 8,
            self.bytes * 3,
            self.bytes,
            self.bytes * 3,
            files * APPENDED * 3,
            pairs(files),
            pairs(pieces - 1),
            pairs(files - 1),
            files * (files - 1),
            self.splices.len() as u64,
            self.others.len() as u64 * 6,
        ]
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.counts().iter().sum()
    }

    /// How many of them are flipped bits: the first ones.
    pub fn flips(&self) -> u64 {
        self.counts()[0]
    }

    fn place(&self, byte: u64) -> (usize, usize) {
        let file = self.starts.partition_point(|start| *start <= byte) - 1;
        (file, index(byte - self.starts[file]))
    }

    /// Damage number `nth`.
    pub fn get(&self, nth: u64) -> Damage {
        let mut rest = nth;
        let mut kind = 0;
        for count in self.counts() {
            if rest < count {
                break;
            }
            rest -= count;
            kind += 1;
        }
        let place = |byte| self.place(byte);
        let fill = |n: u64| FILLS[index(n % 3)];
        let files = self.names.len() as u64;
        let small = |n: u64| u8::try_from(n).expect("below 256");
        match kind {
            0 => {
                let (file, at) = place(rest / 8);
                Damage::Flip(file, at, small(rest % 8))
            }
            1 => {
                let (file, at) = place(rest / 3);
                let random = key_hash(&[self.seed, nth].map(u64::to_le_bytes).concat()).to_le_bytes()[0];
                Damage::Byte(file, at, [0, 0xff, random][index(rest % 3)])
            }
            2 => {
                let (file, at) = place(rest);
                Damage::Cut(file, at)
            }
            3 => {
                let (file, at) = place(rest / 3);
                Damage::Tail(file, at, fill(rest))
            }
            4 => Damage::Append(index(rest / 3 / APPENDED), index(rest / 3 % APPENDED + 1), fill(rest)),
            5 => {
                let (a, b) = pair(rest);
                Damage::Missing(a, b)
            }
            6 => {
                let (a, b) = pair(rest);
                Damage::SwapPieces(a, b + 1)
            }
            7 => {
                let (a, b) = pair(rest);
                Damage::SwapFiles(a, b + 1)
            }
            8 => {
                let (a, b) = (rest / (files - 1), rest % (files - 1));
                Damage::Copy(index(a), index(if b < a { b } else { b + 1 }))
            }
            9 => Damage::Splice(self.splices[index(rest)].0, index(rest)),
            _ => Damage::SpliceKinds(index(rest / 6), small(rest % 6 + 1)),
        }
    }

    /// The directory with damage `damage` done to it.
    pub fn apply(&self, damage: Damage) -> Files {
        let mut files = self.files.clone();
        let name = |file: usize| self.names[file].as_str();
        let bytes = |file: usize| self.files.get(name(file)).unwrap_or_default();
        match damage {
            Damage::Flip(file, at, bit) => files.edit(name(file), |bytes| bytes[at] ^= 1 << bit),
            Damage::Byte(file, at, value) => files.edit(name(file), |bytes| bytes[at] = value),
            Damage::Cut(file, len) => files.edit(name(file), |bytes| bytes.truncate(len)),
            Damage::Tail(file, from, fill) => {
                let len = bytes(file).len();
                let tail = self.fill(file, from, len, fill);
                files.edit(name(file), |bytes| bytes[from..].copy_from_slice(&tail));
            }
            Damage::Append(file, count, fill) => {
                let len = bytes(file).len();
                let tail = self.fill(file, len, len + count, fill);
                files.edit(name(file), |bytes| bytes.extend_from_slice(&tail));
            }
            Damage::Missing(a, b) => {
                files.remove(name(a));
                files.remove(name(b));
            }
            Damage::SwapPieces(a, b) => {
                let ((first, from), (second, to)) = (&self.pieces[a], &self.pieces[b]);
                let len = from.len().min(to.len());
                let take = |file: usize, start: usize| bytes(file)[start..start + len].to_vec();
                let (left, right) = (take(*first, from.start), take(*second, to.start));
                files.edit(name(*first), |bytes| {
                    bytes[from.start..from.start + len].copy_from_slice(&right);
                });
                files.edit(name(*second), |bytes| bytes[to.start..to.start + len].copy_from_slice(&left));
            }
            Damage::SwapFiles(a, b) => {
                files.put(name(a), bytes(b).to_vec());
                files.put(name(b), bytes(a).to_vec());
            }
            Damage::Copy(from, to) => files.put(name(to), bytes(from).to_vec()),
            Damage::Splice(other, splice) => {
                let name = &self.splices[splice].1;
                files.put(name, self.others[other].get(name).unwrap_or_default().to_vec());
            }
            Damage::SpliceKinds(other, kinds) => {
                let of_kind = |name: &str| match name.rsplit('.').next() {
                    Some("sst" | "blob") => kinds & 1 != 0,
                    Some("log") => kinds & 2 != 0,
                    _ => kinds & 4 != 0,
                };
                for name in self.names.iter().filter(|name| of_kind(name)) {
                    files.remove(name);
                }
                for (name, bytes) in self.others[other].iter().filter(|(name, _)| of_kind(name)) {
                    files.put(name, bytes.to_vec());
                }
            }
        }
        files
    }

    /// What stands in file `file` from `from` to `to` instead of what did.
    fn fill(&self, file: usize, from: usize, to: usize, fill: Fill) -> Vec<u8> {
        let ending = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
        let name = &self.names[file];
        match fill {
            Fill::Zeros => vec![0; to - from],
            Fill::Random => {
                let seed = self.seed ^ (file as u64) << 32 ^ from as u64;
                let mut random = fastrand::Rng::with_seed(seed);
                (from..to).map(|_| random.u8(..)).collect()
            }
            Fill::Stale => {
                let all = self.others.iter().chain([&self.files]).flat_map(Files::iter);
                let stale = all.filter(|(other, _)| other != name && ending(other) == ending(name));
                let stale = stale.map(|(_, bytes)| bytes).find(|bytes| bytes.len() > from);
                let stale = stale.and_then(|bytes| bytes.get(from..)).unwrap_or_default();
                let mut tail = stale[..stale.len().min(to - from)].to_vec();
                tail.resize(to - from, 0x5a);
                tail
            }
        }
    }

    /// `damage` in words.
    pub fn describe(&self, damage: Damage) -> String {
        let name = |file: usize| self.names[file].as_str();
        let piece = |nth: usize| {
            let (file, range) = &self.pieces[nth];
            format!("{} {range:?}", name(*file))
        };
        match damage {
            Damage::Flip(file, at, bit) => format!("bit {bit} of byte {at} of {} flipped", name(file)),
            Damage::Byte(file, at, value) => format!("byte {at} of {} set to {value:#04x}", name(file)),
            Damage::Cut(file, len) => format!("{} cut to {len} bytes", name(file)),
            Damage::Tail(file, from, fill) => format!("{fill} in {} from byte {from} on", name(file)),
            Damage::Append(file, count, fill) => format!("{count} bytes of {fill} behind {}", name(file)),
            Damage::Missing(a, b) if a == b => format!("{} missing", name(a)),
            Damage::Missing(a, b) => format!("{} and {} missing", name(a), name(b)),
            Damage::SwapPieces(a, b) => format!("pieces {} and {} swapped", piece(a), piece(b)),
            Damage::SwapFiles(a, b) => format!("{} and {} swapped", name(a), name(b)),
            Damage::Copy(from, to) => format!("{} copied over {}", name(from), name(to)),
            Damage::Splice(other, splice) => {
                format!("{} of directory {other} mixed in", self.splices[splice].1)
            }
            Damage::SpliceKinds(other, kinds) => {
                let kinds = ["tables", "logs", "manifest and CURRENT"]
                    .iter()
                    .enumerate()
                    .filter(|(bit, _)| kinds >> bit & 1 == 1)
                    .map(|(_, kind)| *kind);
                format!("{} of directory {other} mixed in", kinds.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

impl fmt::Display for Fill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fill::Zeros => "zeros",
            Fill::Random => "random bytes",
            Fill::Stale => "another file's bytes",
        })
    }
}
