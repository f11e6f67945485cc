//! Redacts the output of other programs, such as the last lines of a container's log.
//!
//! Our own programs redact known secrets before they print. For other programs this module relies
//! on patterns: credentials in URLs, values of names such as `password`, and prefixes of tokens.

const MASK: &str = "[secret]";
/// The value of a name that contains one of these words is secret.
const SECRET_WORDS: [&str; 8] = [
    "token",
    "secret",
    "password",
    "passphrase",
    "passwd",
    "private_key",
    "apikey",
    "access_key",
];
/// Prefixes of well-known tokens.
const TOKEN_PREFIXES: [&str; 8] = [
    "pul-",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "AKIA",
];

/// Replaces everything that looks like a secret.
#[must_use]
pub fn redact(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(redact_line).collect();
    lines.join("\n")
}

fn redact_line(line: &str) -> String {
    let mut secret_follows = false;
    let words = line.split(' ').map(|word| {
        let redacted = if secret_follows && !word.is_empty() {
            MASK.to_owned()
        } else {
            redact_word(word)
        };
        // `Authorization: Bearer …`, `password: …`, `--token …`
        secret_follows = (secret_follows && word.is_empty()) || precedes_secret(word);
        redacted
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Whether the next word is a secret.
fn precedes_secret(word: &str) -> bool {
    let bare = word.trim_matches(|character: char| "\"'".contains(character));
    if ["bearer", "basic"].contains(&bare.to_ascii_lowercase().as_str()) {
        return true;
    }
    let name = bare.strip_suffix([':', '=']);
    let flag = bare.strip_prefix("--").filter(|flag| !flag.contains('='));
    name.or(flag).is_some_and(is_secret_name)
}

fn redact_word(word: &str) -> String {
    if let Some(redacted) = redact_url(word) {
        return redacted;
    }
    if TOKEN_PREFIXES
        .iter()
        .any(|token| word.trim_start_matches(['"', '\'']).starts_with(token))
    {
        return MASK.to_owned();
    }
    for separator in ['=', ':'] {
        if let Some((name, value)) = word.split_once(separator)
            && is_secret_name(name)
            && value.len() > 1
        {
            return format!("{name}{separator}{MASK}");
        }
    }
    word.to_owned()
}

/// A URL without its credentials.
fn redact_url(word: &str) -> Option<String> {
    let (scheme, rest) = word.split_once("://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at_checked(end)?;
    let (_, host) = host.rsplit_once('@')?;
    Some(format!("{scheme}://{MASK}@{host}{path}"))
}

/// A URL without its credentials: the user and password, or the query, which may be signed.
#[must_use]
pub fn without_credentials(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let whole = format!("{scheme}://{host}{path}");
    let end = whole.find(['?', '#']).unwrap_or(whole.len());
    whole.get(..end).unwrap_or_default().to_owned()
}

/// Whether a URL has credentials that a command line must not show. The user of an SSH address is
/// none.
#[must_use]
pub fn has_credentials(url: &str) -> bool {
    let is_login = url.starts_with("ssh://") && !url.contains('?');
    let rest = url.split_once("://").map(|(_, rest)| rest);
    let host = rest.and_then(|rest| rest.split('/').next());
    let user = host
        .and_then(|host| host.rsplit_once('@'))
        .map(|(user, _)| user);
    match user {
        Some(user) if is_login => user.contains(':'),
        _ => without_credentials(url) != url,
    }
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    let looks_like_a_name = name.len() <= 64 && !name.contains('/');
    looks_like_a_name && SECRET_WORDS.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_like_text_is_redacted() {
        for (text, expected) in [
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
            assert_eq!(redact(text), expected);
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
            assert_eq!(redact(text), text);
        }
    }

    #[test]
    fn url_credentials_are_removed() {
        let table = [
            ("https://me:p@git.test:80/a", "https://git.test:80/a", true),
            ("https://token@git.test/a?x=1#y", "https://git.test/a", true),
            ("https://me:p%40@git.test", "https://git.test", true),
            ("https://me:p?#x@git.test/a", "https://git.test/a", true),
            ("https://git.test/a@b", "https://git.test/a@b", false),
            ("https://git.test/a?signature=1", "https://git.test/a", true),
            ("ssh://git@git.test/a", "ssh://git.test/a", false),
            ("ssh://git:p@git.test/a", "ssh://git.test/a", true),
            ("git@git.test:a.git", "git@git.test:a.git", false),
            ("", "", false),
        ];
        for (url, expected, secret) in table {
            assert_eq!(without_credentials(url), expected);
            assert_eq!(has_credentials(url), secret, "{url}");
        }
    }
}
