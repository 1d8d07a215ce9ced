//! `esker_tests::fuzz`, target `blob_file`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| esker_tests::fuzz::run("blob_file", data));
