//! Which command on which server. Does no I/O.

use super::{DEFAULT_PORT, SshError};

/// The user of an address that names none.
const DEFAULT_USER: &str = "git";

/// A command on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// A name or an address, without brackets
    pub host: String,
    /// Usually 22
    pub port: u16,
    /// Who we are there
    pub user: String,
    /// What the server's shell is given
    pub command: String,
}

impl Target {
    /// `git-upload-pack` for a repository, as git itself asks for it. The path is that of an address; one that
    /// begins with `/~` is in somebody's home.
    pub fn upload_pack(
        host: &str,
        port: Option<u16>,
        user: Option<&str>,
        path: &str,
    ) -> Result<Self, SshError> {
        let path = if path.starts_with("/~") {
            path.trim_start_matches('/')
        } else {
            path
        };
        if path.is_empty() || path.starts_with('-') || path.contains('\0') {
            return Err(SshError::Path);
        }
        let host = host.strip_prefix('[').unwrap_or(host);
        let host = host.strip_suffix(']').unwrap_or(host);
        let user = user.filter(|user| !user.is_empty());
        Ok(Self {
            host: host.to_owned(),
            port: port.unwrap_or(DEFAULT_PORT),
            user: user.unwrap_or(DEFAULT_USER).to_owned(),
            command: format!("git-upload-pack {}", quoted(path)),
        })
    }

    /// Host and port, for messages.
    pub(super) fn address(&self) -> String {
        let Self { host, port, .. } = self;
        match (*port, host.contains(':')) {
            (DEFAULT_PORT, _) => host.clone(),
            (_, true) => format!("[{host}]:{port}"),
            (_, false) => format!("{host}:{port}"),
        }
    }

    /// The first word of the command, for messages.
    pub(super) fn program(&self) -> String {
        let word = self.command.split_whitespace().next();
        word.unwrap_or_default().to_owned()
    }
}

/// One word for a shell, whatever is in it. An exclamation mark is set apart too, for shells of the csh family.
fn quoted(text: &str) -> String {
    let inner = text.replace('\'', r"'\''").replace('!', r"'\!'");
    format!("'{inner}'")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn target(path: &str) -> Result<Target, SshError> {
        Target::upload_pack("git.example.com", None, None, path)
    }

    #[test]
    fn the_user_and_the_port_are_those_of_the_address() {
        let usual = target("/team/app.git").unwrap();
        assert_eq!((usual.user.as_str(), usual.port), ("git", 22));
        assert_eq!(usual.command, "git-upload-pack '/team/app.git'");
        assert_eq!(usual.address(), "git.example.com");
        let other = Target::upload_pack("[::1]", Some(2222), Some("me"), "/~me/app").unwrap();
        assert_eq!((other.user.as_str(), other.port), ("me", 2222));
        assert_eq!(other.command, "git-upload-pack '~me/app'");
        assert_eq!(
            (other.address(), other.host.as_str()),
            ("[::1]:2222".to_owned(), "::1")
        );
        let empty = Target::upload_pack("h", Some(2222), Some(""), "/a").unwrap();
        assert_eq!(
            (empty.user.as_str(), empty.address()),
            ("git", "h:2222".to_owned())
        );
        assert_eq!(empty.program(), "git-upload-pack");
    }

    #[test]
    fn a_shell_sees_one_word() {
        for path in [
            "/plain",
            "/with space",
            "/it's",
            "/'; touch /tmp/pwned; '",
            "/$(id) `id` $HOME",
            "/new\nline",
            "/back\\slash",
            "/!bang",
            "/\"double\"",
            "/ä-ö",
            "/*",
        ] {
            let command = target(path).unwrap().command;
            let words = command.replace("git-upload-pack", "printf '<%s>'");
            let shell = Command::new("sh").args(["-c", &words]).output().unwrap();
            assert_eq!(
                String::from_utf8(shell.stdout).unwrap(),
                format!("<{path}>")
            );
        }
    }

    #[test]
    fn a_path_that_looks_like_an_option_is_refused() {
        for path in ["", "--upload-pack=id", "-x", "/a\0b"] {
            assert_eq!(target(path), Err(SshError::Path), "{path:?}");
        }
    }
}
