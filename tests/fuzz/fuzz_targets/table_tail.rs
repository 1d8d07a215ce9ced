//! `esker_tests::fuzz`, target `table_tail`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| esker_tests::fuzz::run("table_tail", data));
