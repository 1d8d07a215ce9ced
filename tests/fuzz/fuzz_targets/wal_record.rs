//! `esker_tests::fuzz`, target `wal_record`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| esker_tests::fuzz::run("wal_record", data));
