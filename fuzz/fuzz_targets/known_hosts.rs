#![no_main]

libfuzzer_sys::fuzz_target!(|item: (&str, &str, u16)| {
    let (text, host, port) = item;
    pko_source::ssh::fuzz::known_hosts(text, host, port);
});
