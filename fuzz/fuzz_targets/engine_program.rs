#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| pko_engine::fuzz::program(text));
