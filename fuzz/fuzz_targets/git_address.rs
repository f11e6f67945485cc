#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| pko_source::git::fuzz::address(text));
