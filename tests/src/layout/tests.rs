//! What is repaired without a change stays as it is: the checksums here are the engine's.

use esker_base::filename::FileName;

use super::{TRAILER, blob_records, fragments, pieces, repair, table, with_block};
use crate::golden::fixture;

#[test]
fn repairing_what_is_whole_changes_nothing() {
    let files = fixture::files(crate::golden::VERSION).expect("it is committed");
    let database = files.database().expect("CURRENT names it");
    for (name, bytes) in files.iter() {
        let mut repaired = bytes.to_vec();
        repair(name, &mut repaired, database);
        assert!(repaired == bytes, "{name}");
    }
}

#[test]
fn a_checksum_that_was_destroyed_is_made_again() {
    let files = fixture::files(crate::golden::VERSION).expect("it is committed");
    let database = files.database().expect("CURRENT names it");
    for (name, bytes) in files.iter() {
        for piece in pieces(name, bytes) {
            let at = match name.rsplit('.').next() {
                Some("sst" | "blob") if piece.end == bytes.len() => piece.end - 12,
                Some("blob") if piece.start == 0 => piece.end - 4,
                Some("sst" | "CURRENT") => piece.end - 4,
                _ if piece.start == 0 => 60,
                _ => piece.start,
            };
            let mut damaged = bytes.to_vec();
            damaged[at] = if damaged[at] == b'0' { b'1' } else { b'0' };
            assert!(damaged != bytes);
            repair(name, &mut damaged, database);
            assert!(damaged == bytes, "{name} at {at}");
        }
    }
}

#[test]
fn pieces_cover_what_is_used() {
    let files = fixture::files(crate::golden::VERSION).expect("it is committed");
    for (name, bytes) in files.iter() {
        let mut end = 0;
        for piece in pieces(name, bytes) {
            assert_eq!(piece.start, end, "{name}");
            end = piece.end;
        }
        assert!(bytes[end..].iter().all(|byte| *byte == 0), "{name} from {end} on");
        match name.rsplit('.').next() {
            Some("sst") => assert!(table(bytes).is_some_and(|table| !table.blocks.is_empty())),
            Some("blob") => assert!(!blob_records(bytes).is_empty()),
            Some("log" | "manifest") => assert!(!fragments(bytes).is_empty()),
            _ => {}
        }
    }
}

#[test]
fn a_block_of_another_length_moves_what_is_behind_it() {
    let files = fixture::files(crate::golden::VERSION).expect("it is committed");
    let (_, bytes) = files
        .iter()
        .find(|(name, _)| matches!(FileName::parse(name), Some(FileName::Table(_))))
        .expect("it has tables");
    let parts = table(bytes).expect("whole");
    let block = &bytes[parts.blocks[0].clone()];
    assert_eq!(with_block(bytes, 0, block).as_deref(), Some(bytes));
    let longer = [&[7; 11], block].concat();
    let changed = with_block(bytes, 0, &longer).expect("it has a first block");
    let moved = table(&changed).expect("its parts are where it says");
    assert_eq!(changed[moved.blocks[0].clone()], longer);
    assert_eq!(moved.blocks.len(), parts.blocks.len());
    for (new, old) in moved.parts.iter().zip(&parts.parts).filter(|(_, old)| old.len() > TRAILER) {
        assert_eq!((new.start, new.len()), (old.start + 11, old.len()));
    }
}
