#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| pko_agent::fuzz::env_file(text));
