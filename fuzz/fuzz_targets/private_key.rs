#![no_main]

libfuzzer_sys::fuzz_target!(|item: (&str, &str)| {
    let (text, passphrase) = item;
    pko_source::ssh::fuzz::private_key(text, passphrase);
});
