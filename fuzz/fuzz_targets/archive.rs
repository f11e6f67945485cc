#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pko_source::fuzz::archive(bytes));
