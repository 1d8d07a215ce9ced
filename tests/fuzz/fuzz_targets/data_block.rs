//! `esker_tests::fuzz`, target `data_block`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| esker_tests::fuzz::run("data_block", data));
