//! Parses `.gitmodules`. Does no I/O.

use std::collections::HashMap;

/// The addresses of submodules by path. All other settings are ignored.
pub(super) fn addresses(text: &str) -> HashMap<String, String> {
    let mut modules: HashMap<String, (Option<String>, Option<String>)> = HashMap::new();
    let mut name = None;
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            name = submodule_name(section);
        } else if let (Some(name), Some((key, value))) = (&name, line.split_once('=')) {
            let module = modules.entry(name.clone()).or_default();
            let value = unquote(value.trim());
            match key.trim().to_ascii_lowercase().as_str() {
                "path" => module.0 = value,
                "url" => module.1 = value,
                _ => {}
            }
        }
    }
    modules
        .into_values()
        .filter_map(|(path, url)| Some((path?.trim_end_matches('/').to_owned(), url?)))
        .collect()
}

fn submodule_name(section: &str) -> Option<String> {
    let (word, rest) = section.split_once('"')?;
    let (name, _) = rest.rsplit_once('"')?;
    (word.trim().eq_ignore_ascii_case("submodule")).then(|| name.to_owned())
}

/// Removes quotes and a trailing comment. Returns `None` for an unterminated value.
fn unquote(value: &str) -> Option<String> {
    let mut text = String::new();
    let mut in_quotes = false;
    let mut rest = value.chars();
    while let Some(letter) = rest.next() {
        match letter {
            '"' => in_quotes = !in_quotes,
            '\\' => match rest.next()? {
                'n' => text.push('\n'),
                't' => text.push('\t'),
                letter => text.push(letter),
            },
            '#' | ';' if !in_quotes => break,
            letter => text.push(letter),
        }
    }
    (!in_quotes).then(|| text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gitmodules_paths_and_addresses_are_parsed() {
        let found = addresses(
            "# comment\n[submodule \"one\"]\n\tpath = libs/one/\n\turl = ../one.git ; comment\n\
             [core]\n\tpath = no\n\turl = no\n\
             [Submodule \"t]w\\\"o\"]\n\tURL = \"https://h/a b.git\"\n\tpath=two\n\tupdate = !rm -rf /\n\
             [submodule \"half\"]\n\tpath = half\n[submodule \"open\"]\n\tpath = x\n\turl = \"open\n",
        );
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found["libs/one"], "../one.git");
        assert_eq!(found["two"], "https://h/a b.git");
    }
}
