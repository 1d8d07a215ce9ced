//! `esker_tests::fuzz`, target `zstd`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| esker_tests::fuzz::run("zstd", data));
