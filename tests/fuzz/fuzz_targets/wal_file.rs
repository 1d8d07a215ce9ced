//! `esker_tests::fuzz`, target `wal_file`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| esker_tests::fuzz::run("wal_file", data));
