#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pko_agent::fuzz::event_log(bytes));
