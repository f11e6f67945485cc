#![no_main]

libfuzzer_sys::fuzz_target!(|item: (&str, &str, bool, bool)| {
    let (key, value, path, secret) = item;
    pko_agent::fuzz::config_key(key, value, path, secret);
});
