//! `esker_tests::fuzz`, target `crashes`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| esker_tests::fuzz::run("crashes", data));
