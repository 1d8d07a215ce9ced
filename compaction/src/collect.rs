//! Which blob files are worth collecting: a pure function of a tree.
//!
//! A value dies when a merge drops the row that refers to it. A blob file dies by itself when its last
//! value does; before that, its live values keep the space of the dead ones. So when more than a certain
//! share of all values of a keyspace is dead (the bound), the deadest files are *collected*: any compaction
//! that meets their values writes them anew, as many as a job may, and if no compaction comes by itself the
//! picker makes one for this ([`pick`](mod@crate::pick)).
//!
//! There is one bound over all files, not one for each. Let `d` be the dead share of all files together.
//! Writing the deadest anew costs `(1 − v) / v` bytes for each that it frees, where `v` is the dead share
//! of those files; `v > d`, because they are the deadest. With keys overwritten evenly, and files dying as
//! `e^-t`, `1 − d = v / −ln(1 − v)`: for a bound of 30 % files are 52 % dead when their turn comes, and
//! each byte of the user's is written 1.9 times to blob files; for 25 %, 45 % and 2.2 times; for 40 %, 67 %
//! and 1.5 times. Where some keys are overwritten more than others, files are deader still. A bound for
//! each file would give the same disk use for the same writing in the even case, and would collect in the
//! others although hardly anything is dead in all.
//!
//! Collecting a file takes writing the tables anew that refer to it, most of which refer to all files. That
//! is little beside the values (a row has some fifty bytes, its value at least a thousand or so), but not
//! nothing: so once the bound is passed, as many files are collected as it takes to be some way below it
//! again.

use esker_base::FileNumber;
use esker_manifest::{BlobUse, Tree};

use crate::settings::Settings;

#[cfg(test)]
mod tests;

/// How far below the bound collecting leads, in percent of all values.
const RELIEF_PERCENT: u8 = 5;

/// The blob files of `tree` that are to be collected, the deadest first; none while no more than
/// [`Settings::blob_garbage_percent`] of all values are dead.
pub fn to_collect(tree: &Tree, settings: &Settings) -> Vec<FileNumber> {
    let blobs = tree.blobs();
    let mut all: u128 = blobs.iter().map(|blob| u128::from(blob.handle.meta.value_bytes)).sum();
    let mut dead: u128 = blobs.iter().map(|blob| u128::from(blob.dead_bytes())).sum();
    let beyond = |dead: u128, all: u128, percent: u8| dead * 100 > all * u128::from(percent);
    if !beyond(dead, all, settings.blob_garbage_percent) {
        return Vec::new();
    }
    // A file with nothing dead is never chosen; and for a file that has no bytes at all, by the manifest,
    // there would be no share.
    let mut deadest: Vec<&BlobUse> = blobs.iter().filter(|blob| blob.dead_bytes() > 0).collect();
    let share = |one: &BlobUse, other: &BlobUse| {
        u128::from(one.dead_bytes()) * u128::from(other.handle.meta.value_bytes)
    };
    deadest.sort_by(|a, b| share(b, a).cmp(&share(a, b)).then(a.handle.number().cmp(&b.handle.number())));
    let goal = settings.blob_garbage_percent.saturating_sub(RELIEF_PERCENT);
    let mut chosen = Vec::new();
    for blob in deadest {
        if !beyond(dead, all, goal) {
            break;
        }
        dead -= u128::from(blob.dead_bytes());
        all -= u128::from(blob.dead_bytes());
        chosen.push(blob.handle.number());
    }
    chosen
}
