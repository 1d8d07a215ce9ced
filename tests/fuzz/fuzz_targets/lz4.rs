//! `esker_tests::fuzz`, target `lz4`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| esker_tests::fuzz::run("lz4", data));
