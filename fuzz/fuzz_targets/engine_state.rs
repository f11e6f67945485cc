#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pko_engine::fuzz::state(bytes));
