//! Text from elsewhere, such as the last lines of a container's log, without what looks like a secret.
//!
//! Our own programs mask what they know to be secret before they print it. This is for everybody else's, so it goes
//! by looks: credentials in addresses, and values of names that say what they are.

/// What stands in the place of a secret.
const MASK: &str = "[secret]";
/// Names whose values are secret, wherever in the name the word is.
const TELLING: [&str; 8] = [
    "token",
    "secret",
    "password",
    "passphrase",
    "passwd",
    "private_key",
    "apikey",
    "access_key",
];
/// How well-known tokens begin.
const TOKENS: [&str; 8] = [
    "pul-",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "AKIA",
];

/// The text without what looks like a secret.
#[must_use]
pub fn redacted(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(line).collect();
    lines.join("\n")
}

fn line(line: &str) -> String {
    let mut secret_follows = false;
    let words = line.split(' ').map(|word| {
        let shown = if secret_follows && !word.is_empty() {
            MASK.to_owned()
        } else {
            self::word(word)
        };
        // `Authorization: Bearer …`, `password: …`, `--token …`
        secret_follows = (secret_follows && word.is_empty()) || announces(word);
        shown
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Whether the next word is a secret.
fn announces(word: &str) -> bool {
    let bare = word.trim_matches(|character: char| "\"'".contains(character));
    if ["bearer", "basic"].contains(&bare.to_ascii_lowercase().as_str()) {
        return true;
    }
    let name = bare.strip_suffix([':', '=']);
    let flag = bare.strip_prefix("--").filter(|flag| !flag.contains('='));
    name.or(flag).is_some_and(is_telling)
}

fn word(word: &str) -> String {
    if let Some(masked) = address(word) {
        return masked;
    }
    if TOKENS
        .iter()
        .any(|token| word.trim_start_matches(['"', '\'']).starts_with(token))
    {
        return MASK.to_owned();
    }
    for separator in ['=', ':'] {
        if let Some((name, value)) = word.split_once(separator)
            && is_telling(name)
            && value.len() > 1
        {
            return format!("{name}{separator}{MASK}");
        }
    }
    word.to_owned()
}

/// An address without the credentials in it.
fn address(word: &str) -> Option<String> {
    let (scheme, rest) = word.split_once("://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at_checked(end)?;
    let (_, host) = host.rsplit_once('@')?;
    Some(format!("{scheme}://{MASK}@{host}{path}"))
}

fn is_telling(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    let looks_like_a_name = name.len() <= 64 && !name.contains('/');
    looks_like_a_name && TELLING.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_like_text_is_masked() {
        for (text, shown) in [
            (
                "clone https://user:hunter2@git.test/a failed",
                "clone https://[secret]@git.test/a failed",
            ),
            (
                "PULUMI_ACCESS_TOKEN=pul-123",
                "PULUMI_ACCESS_TOKEN=[secret]",
            ),
            ("password: hunter2 is wrong", "password: [secret] is wrong"),
            (
                "Authorization: Bearer abc.def next",
                "Authorization: Bearer [secret] next",
            ),
            ("run --token hunter2 now", "run --token [secret] now"),
            ("run --token=hunter2 now", "run --token=[secret] now"),
            ("used ghp_abcdef here", "used [secret] here"),
            ("a\nDB_PASSWORD=x1\nb", "a\nDB_PASSWORD=[secret]\nb"),
            ("password:  hunter2", "password:  [secret]"),
        ] {
            assert_eq!(redacted(text), shown);
        }
    }

    #[test]
    fn other_text_is_unchanged() {
        for text in [
            "",
            "failed to fetch: 404 Not Found",
            "https://git.test/a@b: not found",
            "secret \"credentials\" not found",
            "exit code: 1",
            "ns/token:latest",
        ] {
            assert_eq!(redacted(text), text);
        }
    }
}
